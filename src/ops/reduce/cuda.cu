#include "ops/reduce/cuda.h"

#include "ops/cuda_kernel.h"
#include "ops/reduce/columns.cuh"
#include "ops/reduce/row.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256, kWarpsOfBlock = kThreads / kWarp;

template <class Row>
__global__ void __launch_bounds__(Row::kBlock)
    reduce_kernel(std::int64_t rows, std::int64_t width, double divisor, const float* x, float* out) {
  for_rows<Row>(rows, [&](std::int64_t row) {
    const double sum = sum_over(width, Row(x + row * width, width), [](float e) { return double{e}; });
    if (threadIdx.x % Row::kThreads == 0) out[row] = static_cast<float>(sum / divisor);
  });
}

template <int kElements>
__global__ void __launch_bounds__(kThreads)
    broadcast_kernel(std::int64_t rows, std::int64_t width, float factor, const float* x, float* y) {
  const std::int64_t of_row = width / kElements;
  for (std::int64_t i = thread_of_grid(); i < rows * of_row; i += threads_of_grid()) {
    const float value = x[i / of_row] * factor;
    Pack<float, kElements> pack;
#pragma unroll
    for (int e = 0; e < kElements; ++e) pack.at[e] = value;
    store_pack(pack, y + i * kElements);
  }
}

// A warp takes every eighth row of its group, four at a time; then the sums of the warps are added in order.
template <class T, int kElements>
__global__ void __launch_bounds__(kThreads)
    sum_rows_kernel(std::int64_t rows, std::int64_t width, std::int64_t rows_of_group, const T* x, float* partials) {
  constexpr int kStrip = kWarp * kElements;
  __shared__ float of_warps[kWarpsOfBlock][kStrip];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kStrip, column = first + lane_of_warp() * kElements;
  const std::int64_t begin = blockIdx.y * rows_of_group, end = begin + rows_of_group < rows ? begin + rows_of_group : rows;
  float sum[kElements] = {};
  if (column < width) {
    load_ahead<4>(
        begin + warp_of_block(), end, std::int64_t{kWarpsOfBlock},
        [&](std::int64_t row) { return load_pack<kElements>(x + row * width + column); },
        [&](std::int64_t, const Pack<T, kElements>& pack) {
#pragma unroll
          for (int e = 0; e < kElements; ++e) sum[e] += widen(pack.at[e]);
        });
  }
#pragma unroll
  for (int e = 0; e < kElements; ++e) of_warps[warp_of_block()][e * kWarp + lane_of_warp()] = sum[e];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kStrip && first + i < width; i += kThreads) {
    const int from = i % kElements * kWarp + i / kElements;
    float all = of_warps[0][from];
#pragma unroll
    for (int w = 1; w < kWarpsOfBlock; ++w) all += of_warps[w][from];
    partials[blockIdx.y * width + first + i] = all;
  }
}

// A warp adds up to 1,024 losses of one row, so that the sums of a row do not depend on its call; one thread adds these sums in
// order.
constexpr std::int64_t kLossTile = 1024;

__global__ void __launch_bounds__(kWarp* kWarp)
    sum_losses_kernel(std::int64_t rows, std::int64_t width, bool add, const float* losses, double* total) {
  __shared__ double of_warps[kWarp];
  const std::int64_t tiles = (width + kLossTile - 1) / kLossTile, items = rows * tiles;
  double all = add ? *total : 0.0;
  for (std::int64_t base = 0; base < items; base += kWarp) {
    const std::int64_t item = base + warp_of_block(), row = item / tiles, begin = item % tiles * kLossTile;
    const std::int64_t end = begin + kLossTile < width ? begin + kLossTile : width;
    double sum = 0;
    if (item < items) {
      load_ahead<8>(
          begin + lane_of_warp(), end, std::int64_t{kWarp}, [&](std::int64_t i) { return losses[row * width + i]; },
          [&](std::int64_t, float loss) { sum += double{loss}; });
    }
    sum = warp_sum(sum);
    if (lane_of_warp() == 0) of_warps[warp_of_block()] = sum;
    __syncthreads();
    for (int w = 0; threadIdx.x == 0 && w < kWarp && base + w < items; ++w) all += of_warps[w];
    __syncthreads();
  }
  if (threadIdx.x == 0) *total = all;
}

__global__ void __launch_bounds__(kThreads) count_small_kernel(std::int64_t n, const F16* x, CudaCounts* counts) {
  constexpr int kElements = 8;
  std::int32_t zeros = 0, normal = 0, seen = 0;  // of a thread: 2^31 of them are 1 PiB
  const auto count = [&](F16 number) {
    const unsigned size = static_cast<unsigned>(number) & 0x7fffU;
    zeros += size == 0;
    normal += size >= 0x0400U;
    ++seen;
  };
  const std::int64_t packs = n / kElements;
  load_ahead<4>(
      thread_of_grid(), packs, threads_of_grid(), [&](std::int64_t i) { return load_pack(x + i * kElements); },
      [&](std::int64_t, const Pack<F16>& pack) {
#pragma unroll
        for (int e = 0; e < kElements; ++e) count(pack.at[e]);
      });
  const std::int64_t rest = packs * kElements + thread_of_grid();
  if (rest < n) count(x[rest]);
  const std::int64_t all_zeros = block_sum(std::int64_t{zeros}), small = block_sum(std::int64_t{seen - zeros - normal});
  if (threadIdx.x == 0) counts[blockIdx.x] = {all_zeros, small};
}

__global__ void __launch_bounds__(kThreads)
    add_counts_kernel(int blocks, std::int64_t n, bool add, const CudaCounts* counts, double* all) {
  CudaCounts mine{0, 0};
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kThreads) {
    mine.zeros += counts[i].zeros;
    mine.subnormals += counts[i].subnormals;
  }
  const std::int64_t zeros = block_sum(mine.zeros), subnormals = block_sum(mine.subnormals);
  if (threadIdx.x != 0) return;
  const auto count = [&](ops::SmallCount which, std::int64_t number) {
    all[which] = (add ? all[which] : 0.0) + static_cast<double>(number);
  };
  count(ops::kElements, n);
  count(ops::kZeros, zeros);
  count(ops::kSubnormals, subnormals);
}

}  // namespace
}  // namespace cuda

namespace {

std::unique_ptr<Kernel> bind_reduce(const KernelRequest& request) {
  const Rows x(request.inputs[0]);
  const double divisor = request.attributes->as<ops::ReduceAttributes>().mean ? static_cast<double>(x.width) : 1.0;
  const auto with = [&]<class Row>(std::type_identity<Row>) {
    return make_kernel([x, divisor](const KernelCall& call) {
      cuda::launch(cuda::reduce_kernel<Row>, cuda::grid_of_rows<Row>(x.rows), call.stream, x.rows, x.width, divisor, call.in(0),
                   call.out(0));
    });
  };
  const bool packs = x.width % 4 == 0;
  if (x.width <= 2048) {
    return packs ? with(std::type_identity<cuda::PassedRow<1, 4>>{}) : with(std::type_identity<cuda::PassedRow<1>>{});
  }
  return packs ? with(std::type_identity<cuda::PassedRow<32, 4>>{}) : with(std::type_identity<cuda::PassedRow<32>>{});
}

std::unique_ptr<Kernel> bind_broadcast(const KernelRequest& request) {
  const auto factor = static_cast<float>(request.attributes->as<ops::BroadcastLastAttributes>().factor);
  return make_kernel([y = Rows(request.outputs[0]), factor](const KernelCall& call) {
    const bool packs = y.width % 4 == 0;
    cuda::launch(packs ? cuda::broadcast_kernel<4> : cuda::broadcast_kernel<1>,
                 cuda::grid_over(y.rows * y.width / (packs ? 4 : 1), cuda::kThreads, cuda::kThreads), call.stream, y.rows,
                 y.width, factor, call.in(0), call.out(0));
  });
}

std::unique_ptr<Kernel> bind_sum_rows(const KernelRequest& request) {
  const bool add = accumulates<ops::AccumulateAttributes>(request);
  const auto bind = [&]<class T>(T) {
    return make_kernel([x = CudaSumRowsLayout(request.inputs[0]), add](const KernelCall& call) {
      auto* partials = reinterpret_cast<float*>(call.scratch);
      cuda::launch(x.pack == 1 ? cuda::sum_rows_kernel<T, 1> : cuda::sum_rows_kernel<T, 16 / sizeof(T)>,
                   {{static_cast<unsigned>(x.strips), static_cast<unsigned>(x.groups)}, {cuda::kThreads}}, call.stream, x.rows,
                   x.width, x.rows_of_group, call.in<T>(0), partials);
      cuda::add_groups(x.groups, x.width, partials, {call.out(0), nullptr, add}, call.stream);
    });
  };
  if (request.inputs[0].dtype == DType::bf16) return bind(cuda::Bf16{});
  if (request.inputs[0].dtype == DType::f16) return bind(F16{});
  return bind(0.0f);
}

std::unique_ptr<Kernel> bind_sum_losses(const KernelRequest& request) {
  return make_kernel([x = Rows(request.inputs[0]), add = !request.overwrite](const KernelCall& call) {
    cuda::launch(cuda::sum_losses_kernel, {{1}, {cuda::kWarp * cuda::kWarp}}, call.stream, x.rows, x.width, add, call.in(0),
                 call.out<double>(0));
  });
}

std::unique_ptr<Kernel> bind_count_small(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), add = !request.overwrite](const KernelCall& call) {
    auto* counts = reinterpret_cast<CudaCounts*>(call.scratch);
    const auto blocks = static_cast<unsigned>(cuda_counting_blocks(n));
    cuda::launch(cuda::count_small_kernel, {{blocks}, {cuda::kThreads}}, call.stream, n, call.in<F16>(0), counts);
    cuda::launch(cuda::add_counts_kernel, {{1}, {cuda::kThreads}}, call.stream, static_cast<int>(blocks), n, add, counts,
                 call.out<double>(0));
  });
}

}  // namespace

CudaKernels reduce_cuda_kernels() {
  return {{&ops::kReduce, bind_reduce},
          {&ops::kBroadcastLast, bind_broadcast},
          {&ops::kSumRows, bind_sum_rows},
          {&ops::kSumLosses, bind_sum_losses},
          {&ops::kCountSmall, bind_count_small}};
}

}  // namespace plimsoll
