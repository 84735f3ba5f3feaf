#include "ops/adapter/cuda.h"

#include "device/cuda/dtypes.cuh"
#include "ops/adapter/block_row_norms.cuh"
#include "ops/adapter/row_norms.cuh"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/columns.cuh"
#include "ops/reduce/row.cuh"

namespace plimsoll {
namespace cuda {
namespace {

// (x - offset) scale + offset
struct Rescaled {
  float offset, scale;
  __device__ float operator()(float x) const { return fmaf(x - offset, scale, offset); }
};
struct ByMagnitude {
  const float *m, *norms, *bias;  // bias: null for none
  __device__ Rescaled operator()(std::int64_t column) const {
    return {bias == nullptr ? 0.0f : bias[column], m[column] / norms[column]};
  }
};

constexpr int kThreads = 256, kWarpsOfBlock = kThreads / kWarp;

struct Product {
  float dy, x;
};

// A warp takes every eighth row of its group; then the sums of the warps are added in order.
template <class G, class T>
__global__ void __launch_bounds__(kThreads)
    magnitude_groups_kernel(CudaMagnitudeLayout n, const G* dy, const T* x, const float* bias, double* partials) {
  __shared__ double of_warps[kWarpsOfBlock][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane_of_warp();
  const std::int64_t begin = blockIdx.y * n.rows_of_group,
                     end = begin + n.rows_of_group < n.rows ? begin + n.rows_of_group : n.rows;
  double sum = 0;
  if (column < n.width) {
    const double offset = bias == nullptr ? 0.0 : static_cast<double>(bias[column]);
    load_ahead<8>(
        begin + warp_of_block(), end, std::int64_t{kWarpsOfBlock},
        [&](std::int64_t row) {
          const std::int64_t at = row * n.width + column;
          return Product{widen(dy[at]), widen(x[at])};
        },
        [&](std::int64_t, const Product& p) { sum += static_cast<double>(p.dy) * (static_cast<double>(p.x) - offset); });
  }
  of_warps[warp_of_block()][lane_of_warp()] = sum;
  __syncthreads();
  if (warp_of_block() != 0 || column >= n.width) return;
#pragma unroll
  for (int w = 1; w < kWarpsOfBlock; ++w) sum += of_warps[w][lane_of_warp()];
  partials[blockIdx.y * n.width + column] = sum;
}

__global__ void __launch_bounds__(kThreads)
    add_magnitudes_kernel(CudaMagnitudeLayout n, bool add, const double* partials, const float* norms, float* dm) {
  const std::int64_t column = thread_of_grid();
  if (column >= n.width) return;
  double all = 0;
  load_ahead<8>(
      std::int64_t{0}, n.groups, std::int64_t{1}, [&](std::int64_t group) { return partials[group * n.width + column]; },
      [&](std::int64_t, double sum) { all += sum; });
  const auto gradient = static_cast<float>(all / static_cast<double>(norms[column]));
  dm[column] = add ? dm[column] + gradient : gradient;
}

}  // namespace
}  // namespace cuda

namespace {

std::unique_ptr<Kernel> bind_sum(const KernelRequest& request) {
  return cuda::with_type(request.inputs[0].dtype, [n = request.inputs[0].shape.elements()]<class T>(T) {
    return make_kernel(
        [n](const KernelCall& call) { cuda::map(n, cuda::Add{}, call.stream, call.out<T>(0), call.in<T>(0), call.in<T>(1)); });
  });
}

std::unique_ptr<Kernel> bind_magnitude(const KernelRequest& request) {
  const bool bias = request.attributes->as<ops::MagnitudeAttributes>().bias;
  return cuda::with_type(request.inputs[0].dtype, [x = Rows(request.inputs[0]), bias]<class T>(T) {
    return make_kernel([x, bias](const KernelCall& call) {
      const cuda::ByMagnitude by{call.in(1), call.in(2), bias ? call.in(3) : nullptr};
      cuda::map_columns(x.rows, x.width, by, call.stream, call.in<T>(0), call.out<T>(0));
    });
  });
}

template <class G, class T>
std::unique_ptr<Kernel> bind_magnitude_backward_of(const KernelRequest& request) {
  const bool bias = request.attributes->as<ops::MagnitudeAttributes>().bias;
  const bool add = accumulates<ops::MagnitudeAttributes>(request);
  return make_kernel([n = CudaMagnitudeLayout(request.inputs[1]), bias, add](const KernelCall& call) {
    auto* partials = reinterpret_cast<double*>(call.scratch);
    cuda::launch(cuda::magnitude_groups_kernel<G, T>,
                 {{static_cast<unsigned>(n.strips), static_cast<unsigned>(n.groups)}, {cuda::kThreads}}, call.stream, n,
                 call.in<G>(0), call.in<T>(1), bias ? call.in(3) : nullptr, partials);
    cuda::launch(cuda::add_magnitudes_kernel,
                 {{static_cast<unsigned>(ceil_div(n.width, std::int64_t{cuda::kThreads}))}, {cuda::kThreads}}, call.stream, n,
                 add, partials, call.in(2), call.out(0));
  });
}

std::unique_ptr<Kernel> bind_magnitude_backward(const KernelRequest& request) {
  return cuda::with_type(request.inputs[0].dtype, [&]<class G>(G) {
    return cuda::with_type(request.inputs[1].dtype, [&]<class T>(T) { return bind_magnitude_backward_of<G, T>(request); });
  });
}

std::unique_ptr<Kernel> bind_row_norms(const KernelRequest& request) {
  if (const auto& blocks = request.attributes->as<ops::RowNormAttributes>().blocks) {
    return make_kernel([norms = cuda::BlockRowNorms(request, *blocks)](const KernelCall& call) { norms.run(call); });
  }
  const std::int64_t all = request.inputs[1].shape.elements();
  return cuda::with_type(request.inputs[1].dtype, [shape = CudaRowNorms(request), all]<class T>(T) {
    return make_kernel([shape, all](const KernelCall& call) {
      const cuda::RowNormOperands n{shape, call.in(2), call.in(3), reinterpret_cast<double*>(call.scratch)};
      const std::int64_t begin = call.range.begin, end = call.range.whole() ? all : std::min(all, begin + call.range.elements);
      cuda::add_strip(n, cuda::Strip<T>{call.in<T>(1), begin, end}, call.stream);
      if (end == all) cuda::end_row_norms(n, call.out(0), call.stream);
    });
  });
}

}  // namespace

CudaKernels adapter_cuda_kernels() {
  return {{&ops::kSumPaths, bind_sum},
          {&ops::kMagnitude, bind_magnitude},
          {&ops::kMagnitudeBackward, bind_magnitude_backward},
          {&ops::kRowNorms, bind_row_norms}};
}

}  // namespace plimsoll
