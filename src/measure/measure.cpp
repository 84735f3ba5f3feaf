#include "measure/measure.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory_limit.h"
#include "device/arena.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"
#include "device/machine_facts.h"
#include "ops/kernel.h"
#include "plan/node_kernels.h"

namespace plimsoll {
namespace {

// The least time among the samples that fit into `seconds`, at least `fewest` of them.
template <class Body>
double least_seconds(double seconds, int fewest, const Body& body) {
  double least = std::numeric_limits<double>::infinity();
  const double end = seconds_now() + seconds;
  for (int i = 0; i < fewest || seconds_now() < end; ++i) {
    const double start = seconds_now();
    body();
    least = std::min(least, seconds_now() - start);
  }
  return least;
}

constexpr int kAttempts = 3;

constexpr std::int64_t kPiece = 1 << 14;

// The size of one of four arrays, in elements. At 32 MiB each they far exceed the caches per thread. A small budget makes them
// smaller.
std::int64_t array_elements() {
  constexpr std::int64_t kMost = 8 << 20, kLeast = 1 << 20;
  constexpr Bytes kBeside{24 * kMiB.n};
  const std::optional<Bytes> room = MemoryLimit::room();
  if (!room) return kMost;
  const std::int64_t fits = (*room - kBeside).n / (4 * static_cast<std::int64_t>(sizeof(float)));
  return std::clamp(fits, kLeast, kMost) / kPiece * kPiece;
}

// Calls body(begin, end) over arrays of `elements` elements on the whole team.
template <class Body>
void over_pieces(std::int64_t elements, const Body& body) {
  cpu::parallel_for(elements / kPiece, [&](std::int64_t piece) { body(piece * kPiece, (piece + 1) * kPiece); });
}

double measure_copy(float* arrays, std::int64_t elements) {
  const double seconds = least_seconds(0.2, 3, [&] {
    over_pieces(elements, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(arrays + begin, arrays + 2 * elements + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  });
  return 2.0 * sizeof(float) * static_cast<double>(elements) / seconds;
}

double measure_pass(float* arrays, std::int64_t elements) {
  float *p = arrays, *m = arrays + elements, *v = arrays + 2 * elements;
  const float* g = arrays + 3 * elements;
  const double seconds = least_seconds(0.3, 3, [&] {
    over_pieces(elements, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        v[i] = 0.9f * v[i] + 0.1f * g[i] * g[i];
        p[i] = p[i] - 1e-3f * m[i] * v[i];
      }
    });
  });
  return 7.0 * sizeof(float) * static_cast<double>(elements) / seconds;
}

// A product with operands of its own.
class Product {
 public:
  Product(std::int64_t m, std::int64_t n, std::int64_t k, int threads, DType operands = DType::f32)
      : shape_{.m = m, .n = n, .k = k, .operands = operands}, gemm_(shape_, threads) {}

  double flops() const { return 2.0 * static_cast<double>(shape_.m * shape_.n) * static_cast<double>(shape_.k); }
  Bytes size() const { return of_a() + of_b() + of_c() + gemm_.plan().scratch; }
  void run(std::byte* base) const {
    std::byte *b = base + of_a().n, *c = b + of_b().n;
    gemm_.run(base, b, nullptr, c, c + of_c().n);
  }

 private:
  Bytes of_a() const { return Bytes{size_of(shape_.operands) * shape_.m * shape_.k}; }
  Bytes of_b() const { return Bytes{size_of(shape_.operands) * shape_.k * shape_.n}; }
  Bytes of_c() const { return Bytes{size_of(shape_.result) * shape_.m * shape_.n}; }

  GemmShape shape_;
  cpu::Gemm gemm_;
};

double measure_products(std::byte* base, Bytes size, int threads, DType operands) {
  double best = 0;
  // Shapes for the library and for Plimsoll's own kernel (device/cpu/gemm).
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{480, 768, 768}, {1024, 768, 3072}, {1024, 3072, 768}}) {
    const Product product(m, n, k, threads, operands);
    if (product.size() > size) continue;  // the first one always fits
    const double seconds = least_seconds(0.15, 3, [&] { product.run(base); });
    best = std::max(best, product.flops() / seconds);
  }
  return best;
}

double measure_call() {
  constexpr int kCalls = 200;
  const double seconds = least_seconds(0.03, 3, [] {
    for (int i = 0; i < kCalls; ++i) cpu::parallel_for(cpu::thread_count(), [](std::int64_t) {});
  });
  return seconds / kCalls;
}

// Integer inputs of a kernel are row indices. The limit is the fewest rows of the other operands' matrices; without a matrix the
// indices are zero.
std::int64_t index_limit(const KernelRequest& request) {
  std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  for (const TypeSpan types : {request.inputs, request.outputs}) {
    for (const ValueType& type : types) {
      if (!is_float(type.dtype)) continue;
      if (type.shape.rank() == 2) limit = std::min(limit, type.shape[0]);
      if (type.shape.rank() > 2) limit = std::min(limit, type.shape.last(1));
    }
  }
  const bool tables = limit < std::numeric_limits<std::int32_t>::max();
  return tables ? std::max<std::int64_t>(1, limit) : 1;
}

// The operands of one kernel, one after the other. Outputs that are new versions of inputs take the inputs' place.
class Operands {
 public:
  explicit Operands(const KernelRequest& request, Bytes scratch) : request_(request) {
    for (const ValueType& type : request.inputs) inputs_.push_back(take(Bytes{dense_bytes(type.shape, type.dtype)}));
    for (const ValueType& type : request.outputs) outputs_.push_back(take(Bytes{dense_bytes(type.shape, type.dtype)}));
    for (const Alias& alias : aliases_of(*request.op, *request.attributes)) {
      if (in_place(alias.kind)) outputs_[alias.output] = inputs_[alias.input];
    }
    scratch_ = take(scratch);
  }

  Bytes size() const { return size_; }

  void fill_inputs(std::byte* base) const {
    const std::int64_t rows = index_limit(request_);
    for (std::size_t i = 0; i < inputs_.size(); ++i) fill_with_numbers(base + inputs_[i].n, request_.inputs[i], rows);
  }

  // The median of a few runs, each after `rest_of_step`.
  double seconds(const Kernel& kernel, std::byte* base, double limit, const std::function<void()>& rest_of_step) const {
    std::vector<std::byte*> in, out;
    for (const Bytes offset : inputs_) in.push_back(base + offset.n);
    for (const Bytes offset : outputs_) out.push_back(base + offset.n);
    const KernelCall call{in, out, base + scratch_.n};
    fill_inputs(base);
    kernel.run(call);  // faults pages and code in
    constexpr std::size_t kFewestRuns = 3;
    std::vector<double> samples;
    const double end = seconds_now() + limit;
    while (samples.size() < kFewestRuns || seconds_now() < end) {
      // Values updated in place would drift to infinity or zero over many runs.
      if (samples.size() % 8 == 7) fill_inputs(base);
      rest_of_step();
      const double start = seconds_now();
      kernel.run(call);
      samples.push_back(seconds_now() - start);
    }
    return median(std::move(samples));
  }

 private:
  Bytes take(Bytes bytes) {
    const Bytes offset = size_;
    size_ += align_up(bytes, kAlignment);
    return offset;
  }

  const KernelRequest& request_;
  std::vector<Bytes> inputs_, outputs_;
  Bytes scratch_, size_;
};

// A kernel of a graph without a time yet, and its first node.
struct Wanted {
  const Node* node;
  bool overwrite;
  double work = 0;  // of all of its nodes, for the order of measuring
};

// The work of a node, for measuring the largest share of a step first: at the time limit little is left.
double work_of(const KernelRequest& request) {
  const Cost cost = request.op->cost(*request.attributes, request.inputs, request.outputs);
  constexpr double kFlopsPerByte = 8;
  return cost.flops + kFlopsPerByte * cost.bytes;
}

std::map<std::string, Wanted> wanted_kernels(const Graph& graph, int threads, int loss_chunks, const KernelSeconds& known) {
  std::map<std::string, Wanted> wanted;
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    if (node.op->view) continue;
    for (const bool overwrite : {false, true}) {
      const NodeRequest request = request_for(graph, node, threads, loss_chunks, overwrite);
      std::string key = timing_key(request.request);
      if (known.contains(key)) continue;
      wanted.try_emplace(std::move(key), Wanted{&node, overwrite}).first->second.work += work_of(request.request);
    }
  }
  return wanted;
}

struct TimedKernel {
  double seconds = 0;
  bool shared = true;  // no attempt was quiet
};

std::optional<TimedKernel> time_kernel(const Graph& graph, const Wanted& wanted, int threads, int loss_chunks,
                                       const MeasureLimits& limits, double end) {
  const NodeRequest request = request_for(graph, *wanted.node, threads, loss_chunks, wanted.overwrite);
  const CpuKernel* kernel = find_cpu_kernel(*wanted.node->op);
  ensure(kernel != nullptr, "measure", "an op has no kernel");
  const KernelChoice choice = kernel->choose == nullptr ? own_kernel() : kernel->choose(request.request);
  const Operands operands(request.request, choice.scratch);
  // Within a step the operands of a kernel are not in the caches, and the processor has the clock rate of full load. The products
  // of `others` before each run imitate that.
  const Product others(512, 3072, 768, threads);
  const Bytes own = align_up(operands.size(), kPage);
  if (own + others.size() > limits.memory) return std::nullopt;
  const Arena arena(own + others.size());
  fill_with_numbers(arena.base() + own.n, {DType::f32, {others.size().n / static_cast<std::int64_t>(sizeof(float))}}, 1);
  const auto rest_of_step = [&] { others.run(arena.base() + own.n); };
  const std::unique_ptr<Kernel> bound = kernel->bind(request.request);
  TimedKernel timed{std::numeric_limits<double>::infinity()};
  for (int attempt = 0; attempt < kAttempts && timed.shared; ++attempt) {
    const Contention contention;
    const double seconds = operands.seconds(*bound, arena.base(), limits.seconds_per_kernel / kAttempts, rest_of_step);
    timed.seconds = std::min(timed.seconds, seconds);
    timed.shared = contention.sharing().most() > limits.others;
    if (seconds_now() >= end) break;
  }
  return timed;
}

}  // namespace

void fill_with_numbers(std::byte* to, const ValueType& type, std::int64_t rows) {
  const std::int64_t n = type.shape.elements();
  const auto write = [&]<class T>(const auto& value) {
    T* out = reinterpret_cast<T*>(to);
    constexpr std::int64_t kTask = 1 << 16;
    cpu::parallel_for((n + kTask - 1) / kTask, [&](std::int64_t task) {
      for (std::int64_t i = task * kTask; i < std::min(n, (task + 1) * kTask); ++i) out[i] = static_cast<T>(value(i));
    });
  };
  const auto noise = [](std::int64_t i) { return static_cast<std::uint32_t>(i) * 2654435761u >> 8; };
  switch (type.dtype) {
    case DType::f32: write.operator()<float>([&](auto i) { return 0.01f + static_cast<float>(noise(i)) * 0x1p-25f; }); break;
    case DType::f64: write.operator()<double>([](auto) { return 1e-3; }); break;
    case DType::i32: write.operator()<std::int32_t>([&](auto i) { return noise(i) % rows; }); break;
    case DType::i64: write.operator()<std::int64_t>([&](auto i) { return noise(i) % rows; }); break;
    case DType::u32: write.operator()<std::uint32_t>([](auto i) { return i; }); break;
    case DType::f16:
    case DType::bf16: write.operator()<std::uint16_t>([&](auto i) { return 0x3C00 + noise(i) % 256; }); break;
    case DType::u8: write.operator()<std::uint8_t>([&](auto i) { return noise(i); }); break;
    case DType::u16: write.operator()<std::uint16_t>([&](auto i) { return noise(i); }); break;
  }
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

Rates measure_rates(int threads) {
  cpu::set_thread_count(threads);
  const std::int64_t elements = array_elements();
  const Arena arena(Bytes{4 * elements * static_cast<std::int64_t>(sizeof(float))});
  fill_with_numbers(arena.base(), {DType::f32, {4 * elements}}, 1);
  float* arrays = reinterpret_cast<float*>(arena.base());
  Rates rates;
  const Contention contention;
  rates.copy_bytes_per_second = measure_copy(arrays, elements);
  rates.roofline.bytes_per_second = measure_pass(arrays, elements);
  rates.roofline.flops_per_second = measure_products(arena.base(), arena.size(), threads, DType::f32);
  if (multiplies_bf16()) {
    fill_with_numbers(arena.base(), {DType::bf16, {8 * elements}}, 1);
    rates.roofline.bf16_flops_per_second = measure_products(arena.base(), arena.size(), threads, DType::bf16);
  }
  rates.roofline.step_seconds = measure_call();
  rates.sharing = contention.sharing();
  return rates;
}

KernelSeconds measure_kernels(const Graph& graph, int threads, int loss_chunks, const KernelSeconds& known,
                              const MeasureLimits& limits, KernelNames* shared) {
  cpu::set_thread_count(threads);
  KernelSeconds measured;
  if (limits.seconds <= 0) return measured;
  const double end = seconds_now() + limits.seconds;
  const std::map<std::string, Wanted> all = wanted_kernels(graph, threads, loss_chunks, known);
  std::vector<std::pair<std::string, Wanted>> ordered(all.begin(), all.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.second.work > b.second.work; });
  for (const auto& [key, wanted] : ordered) {
    if (!measured.empty() && seconds_now() >= end) break;  // the first one is measured in any case
    const std::optional<TimedKernel> timed = time_kernel(graph, wanted, threads, loss_chunks, limits, end);
    if (!timed) continue;
    measured[key] = timed->seconds;
    if (shared != nullptr && timed->shared) shared->insert(key);
  }
  return measured;
}

KernelCoverage coverage(const Graph& graph, int threads, int loss_chunks, const KernelSeconds& known) {
  KernelCoverage result;
  double all = 0, done = 0;
  for (const auto& [key, kernel] : wanted_kernels(graph, threads, loss_chunks, {})) {
    all += kernel.work;
    ++result.kernels;
    if (!known.contains(key)) continue;
    done += kernel.work;
    ++result.known;
  }
  result.share = all > 0 ? done / all : 1;
  return result;
}

}  // namespace plimsoll
