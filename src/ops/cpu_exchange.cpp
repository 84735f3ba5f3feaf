#include "ops/cpu_exchange.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "base/ceil_div.h"
#include "device/cpu/parallel.h"
#include "graph/exchange.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

// Elements of a task.
constexpr std::int64_t kPiece = 1 << 12;

ExchangeAttributes attributes_of(const KernelRequest& request) { return request.attributes->as<ExchangeAttributes>(); }

// Sums of bf16 are taken in fp32 and rounded once.
float value_of(float number) { return number; }
double value_of(double number) { return number; }
float value_of(std::uint16_t number) { return widen_bf16(number); }
void store(float sum, float& to) { to = sum; }
void store(double sum, double& to) { to = sum; }
void store(float sum, std::uint16_t& to) { to = narrow_bf16(sum); }

// The place of sums, and whether they are added to its numbers.
template <class T>
struct Into {
  T* sums;
  bool adds;
};

// One number of each rank, in the order of ranks; `received` has those of the others.
template <class T>
void add_ranks(const ExchangeAttributes& a, std::int64_t n, const std::byte* received, Bytes step, const T* own, Into<T> into) {
  cpu::parallel_for(ceil_div(n, kPiece), [&](std::int64_t piece) {
    const std::int64_t begin = piece * kPiece, end = std::min(n, begin + kPiece);
    decltype(value_of(T{})) sums[kPiece];
    for (std::int64_t rank = 0; rank < a.ranks(); ++rank) {
      const std::int64_t slot = rank < a.rank ? rank : rank - 1;
      const T* of = rank == a.rank ? own : reinterpret_cast<const T*>(received + slot * step.n);
      if (rank == 0) {
        for (std::int64_t i = begin; i < end; ++i) sums[i - begin] = value_of(of[i]);
      } else {
        for (std::int64_t i = begin; i < end; ++i) sums[i - begin] += value_of(of[i]);
      }
    }
    for (std::int64_t i = begin; i < end; ++i) {
      store(into.adds ? value_of(into.sums[i]) + sums[i - begin] : sums[i - begin], into.sums[i]);
    }
  });
}

KernelChoice choose_sum_shards(const KernelRequest& request) {
  const ExchangeAttributes a = attributes_of(request);
  return own_kernel(chunk_bytes(a, request.inputs[0].dtype) * staged_chunks(a));
}

// The received numbers of the chunk of a range.
const std::byte* received_in(const KernelCall& call, Bytes chunk) {
  return call.scratch + (call.range.begin / kExchangeChunk % 2) * chunk.n;
}

template <class T>
std::unique_ptr<Kernel> bind_sum(const KernelRequest& request) {
  const ExchangeAttributes a = attributes_of(request);
  const Bytes all = chunk_bytes(a, request.inputs[0].dtype);
  return make_kernel([a, all](const KernelCall& call) {
    T* const own = call.out<T>(0);
    add_ranks(a, call.range.elements, received_in(call, all), Bytes{all.n / (a.ranks() - 1)}, own, Into<T>{own, false});
  });
}

template <class T>
std::unique_ptr<Kernel> bind_reduce(const KernelRequest& request) {
  const ExchangeAttributes a = attributes_of(request);
  const Bytes all = chunk_bytes(a, request.inputs[0].dtype);
  return make_kernel([a, all, adds = !request.overwrite](const KernelCall& call) {
    if (a.elements(a.rank) == 0) {
      *call.out<T>(0) = 0;
      return;
    }
    const T* const own = call.in<T>(0) + a.begin(a.rank) + call.range.begin;
    const Into<T> sum{call.out<T>(0), adds};
    add_ranks(a, call.range.elements, received_in(call, all), Bytes{all.n / (a.ranks() - 1)}, own, sum);
  });
}

bool is_rounded(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  ensure(dtype == DType::f32 || dtype == DType::bf16, "sums over ranks", "the gradients are neither fp32 nor bf16");
  return dtype == DType::bf16;
}
std::unique_ptr<Kernel> bind_sum_shards(const KernelRequest& request) {
  return is_rounded(request) ? bind_sum<std::uint16_t>(request) : bind_sum<float>(request);
}
std::unique_ptr<Kernel> bind_reduce_shards(const KernelRequest& request) {
  return is_rounded(request) ? bind_reduce<std::uint16_t>(request) : bind_reduce<float>(request);
}

KernelChoice choose_sum_all(const KernelRequest& request) {
  const std::int64_t others = attributes_of(request).ranks() - 1;
  return own_kernel(align_up(Bytes{request.inputs[0].shape.elements() * size_of(DType::f64)}, kAlignment) * others);
}

std::unique_ptr<Kernel> bind_sum_all(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.elements();
  const Bytes step = align_up(Bytes{n * size_of(DType::f64)}, kAlignment);
  return make_kernel([a = attributes_of(request), n, step](const KernelCall& call) {
    double* const own = call.out<double>(0);
    add_ranks(a, n, call.scratch, step, own, Into<double>{own, false});
  });
}

std::unique_ptr<Kernel> bind_gather_values(const KernelRequest& request) {
  const ExchangeAttributes a = attributes_of(request);
  std::vector<std::int64_t> counts;
  for (const ValueType& input : request.inputs) counts.push_back(input.shape.elements());
  return make_kernel([own = a.elements(a.rank), counts = std::move(counts)](const KernelCall& call) {
    double* const begin = call.out<double>(0);
    double* out = begin;
    for (std::size_t i = 0; i < counts.size(); ++i) out = std::copy_n(call.in<double>(i), counts[i], out);
    std::fill(out, begin + own, 0.0);
  });
}

// The own shard, in the type of the whole.
std::unique_ptr<Kernel> bind_fetch_shards(const KernelRequest& request) {
  const ExchangeAttributes a = attributes_of(request);
  const DType from = request.inputs[0].dtype;
  return make_kernel([n = a.elements(a.rank), from, to = a.dtype](const KernelCall& call) {
    cpu::parallel_for(ceil_div(n, kPiece), [&](std::int64_t piece) {
      const std::int64_t begin = piece * kPiece, end = std::min(n, begin + kPiece);
      std::byte* const out = call.out<std::byte>(0) + begin * size_of(to);
      if (from == to) {
        std::memcpy(out, call.in<std::byte>(0) + begin * size_of(to), static_cast<std::size_t>((end - begin) * size_of(to)));
      } else {
        narrow(to, std::span(call.in(0) + begin, static_cast<std::size_t>(end - begin)), out);
      }
    });
  });
}

std::unique_ptr<Kernel> bind_gather_shards(const KernelRequest&) {
  return make_kernel([](const KernelCall&) {});
}

std::unique_ptr<Kernel> bind_parts(const KernelRequest& request) {
  return make_kernel([a = request.attributes->as<PartsAttributes>()](const KernelCall& call) {
    double sum = 0;
    for (std::size_t i = 0; i < a.begins.size(); ++i) {
      const double* part = call.in<double>(0) + a.begins[i];
      for (std::int64_t k = 0; k < a.counts[i]; ++k) sum += part[k];
    }
    *call.out<double>(0) = sum;
  });
}

std::unique_ptr<Kernel> bind_nothing(const KernelRequest& request) {
  return make_kernel([n = request.attributes->as<NothingAttributes>().elements](const KernelCall& call) {
    if (n > 0) std::fill_n(call.out<double>(0), n, 0.0);
  });
}

}  // namespace

CpuKernels exchange_cpu_kernels() {
  return {{&kSumShards, choose_sum_shards, bind_sum_shards},
          {&kReduceShards, choose_sum_shards, bind_reduce_shards},
          {&kSumAll, choose_sum_all, bind_sum_all},
          {&kGatherValues, nullptr, bind_gather_values},
          {&kGatherShards, nullptr, bind_gather_shards},
          {&kFetchShards, nullptr, bind_fetch_shards},
          {&kRefreshShards, nullptr, bind_fetch_shards},
          {&kAddParts, nullptr, bind_parts},
          {&kNothing, nullptr, bind_nothing}};
}

}  // namespace plimsoll
