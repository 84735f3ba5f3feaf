#include <cmath>

#include "device/cuda/dtypes.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/columns.cuh"
#include "ops/reduce/row.cuh"
#include "ops/statistic/statistic.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

struct Minus {
  float mean;
  __device__ float operator()(float x) const { return x - mean; }
};
struct MinusMean {
  const float* mean;
  __device__ Minus operator()(std::int64_t column) const { return {mean[column]}; }
};

// A thread adds all rows of its column in order, so that the cut of rows into calls changes no bit. The column past the last one
// counts rows.
template <class T>
__global__ void __launch_bounds__(kWarp)
    deviations_kernel(std::int64_t rows, std::int64_t n, bool add, const T* x, const float* means, double* sums) {
  const std::int64_t column = thread_of_grid();
  if (column > n) return;
  double sum = add ? sums[column] : 0.0;
  if (column == n) {
    sum += static_cast<double>(rows);
  } else {
    const double mean = static_cast<double>(means[column]);
    load_ahead<16>(
        std::int64_t{0}, rows, std::int64_t{1}, [&](std::int64_t row) { return x[row * n + column]; },
        [&](std::int64_t, T more) { sum += static_cast<double>(widen(more)) - mean; });
  }
  sums[column] = sum;
}

// `coefficient` null: the mean always moves. The product is rounded before the sum, as on the CPU.
__global__ void __launch_bounds__(kThreads)
    move_mean_kernel(std::int64_t n, double blend, const double* sums, const float* coefficient, float* mean) {
  const std::int64_t i = thread_of_grid();
  if (i >= n || (coefficient != nullptr && !std::isfinite(*coefficient))) return;
  const double step = __dmul_rn(blend, sums[i] / sums[n]);
  if (std::isfinite(step)) mean[i] = static_cast<float>(static_cast<double>(mean[i]) + step);
}

// `coefficient` null: the average always moves.
__global__ void __launch_bounds__(kThreads) move_average_kernel(std::int64_t n, double blend, const float* x,
                                                                const double* scalars, const float* coefficient, float* average) {
  const std::int64_t i = thread_of_grid();
  if (i >= n || (coefficient != nullptr && !std::isfinite(*coefficient))) return;
  const double before = average[i], step = __dmul_rn(blend, static_cast<double>(x[i]) - before);
  average[i] = scalars[ops::kUpdate] == 1 ? x[i] : static_cast<float>(before + step);
}

// A block has 32 columns, and its warps take rows in turn: a maximum is the same in any order.
constexpr int kMagnitudeWarps = 32;

__device__ __forceinline__ float larger(float x, float most) { return x > most ? x : most; }

template <class T>
__global__ void __launch_bounds__(kMagnitudeWarps* kWarp)
    largest_magnitude_kernel(std::int64_t rows, std::int64_t n, const T* x, float* most) {
  __shared__ float of_warps[kMagnitudeWarps][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane_of_warp();
  float mine = 0;
  if (column < n) {
    load_ahead<4>(
        std::int64_t{warp_of_block()}, rows, std::int64_t{kMagnitudeWarps}, [&](std::int64_t row) { return x[row * n + column]; },
        [&](std::int64_t, T element) { mine = larger(fabsf(widen(element)), mine); });
  }
  of_warps[warp_of_block()][lane_of_warp()] = mine;
  __syncthreads();
  if (warp_of_block() != 0 || column >= n) return;
  for (int w = 1; w < kMagnitudeWarps; ++w) mine = larger(of_warps[w][lane_of_warp()], mine);
  most[column] = larger(mine, most[column]);
}

}  // namespace
}  // namespace cuda

namespace {

unsigned strips_of(std::int64_t columns) { return static_cast<unsigned>(ceil_div(columns, std::int64_t{cuda::kWarp})); }

std::unique_ptr<Kernel> bind_subtract(const KernelRequest& request) {
  return make_kernel([x = Rows(request.inputs[0])](const KernelCall& call) {
    cuda::map_columns(x.rows, x.width, cuda::MinusMean{call.in(1)}, call.stream, call.in(0), call.out(0));
  });
}

std::unique_ptr<Kernel> bind_deviations(const KernelRequest& request) {
  const bool add = !request.overwrite;
  return cuda::with_type(request.inputs[0].dtype, [x = Rows(request.inputs[0]), add]<class T>(T) {
    return make_kernel([x, add](const KernelCall& call) {
      cuda::launch(cuda::deviations_kernel<T>, {{strips_of(x.width + 1)}, {cuda::kWarp}}, call.stream, x.rows, x.width, add,
                   call.in<T>(0), call.in(1), call.out<double>(0));
    });
  });
}

// The blocks of a kernel with a thread for each of n elements.
unsigned blocks_of(std::int64_t n) { return static_cast<unsigned>(ceil_div(n, std::int64_t{cuda::kThreads})); }

std::unique_ptr<Kernel> bind_moving_mean(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), guarded = request.inputs.size() > 2,
                      blend = request.attributes->as<ops::MovingMeanAttributes>().blend](const KernelCall& call) {
    cuda::launch(cuda::move_mean_kernel, {{blocks_of(n)}, {cuda::kThreads}}, call.stream, n, blend, call.in<double>(1),
                 guarded ? call.in(2) : nullptr, call.out(0));
  });
}

std::unique_ptr<Kernel> bind_average(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), guarded = request.inputs.size() > 3,
                      blend = request.attributes->as<ops::AverageAttributes>().blend](const KernelCall& call) {
    cuda::launch(cuda::move_average_kernel, {{blocks_of(n)}, {cuda::kThreads}}, call.stream, n, blend, call.in(1),
                 call.in<double>(2), guarded ? call.in(3) : nullptr, call.out(0));
  });
}

std::unique_ptr<Kernel> bind_magnitude(const KernelRequest& request) {
  return cuda::with_type(request.inputs[0].dtype, [x = Rows(request.inputs[0])]<class T>(T) {
    return make_kernel([x](const KernelCall& call) {
      cuda::launch(cuda::largest_magnitude_kernel<T>, {{strips_of(x.width)}, {cuda::kMagnitudeWarps * cuda::kWarp}}, call.stream,
                   x.rows, x.width, call.in<T>(0), call.out(0));
    });
  });
}

}  // namespace

CudaKernels statistic_cuda_kernels() {
  return {{&ops::kSubtractMean, bind_subtract},
          {&ops::kDeviations, bind_deviations},
          {&ops::kMovingMean, bind_moving_mean},
          {&ops::kLargestMagnitude, bind_magnitude},
          {&ops::kAverageStatistic, bind_average}};
}

}  // namespace plimsoll
