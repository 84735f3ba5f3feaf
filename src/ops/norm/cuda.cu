#include "ops/norm/cuda.h"

#include "ops/cuda_kernel.h"
#include "ops/norm/backward.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct LayerNorm {
  std::int64_t rows, width;
  float epsilon;
  const float* x;
  float *mean, *rstd;
};

// The variance is the mean of squared differences from the mean.
template <class Row, class T>
__global__ void __launch_bounds__(Row::kBlock)
    layer_norm_kernel(LayerNorm n, const float* __restrict__ gammas, const float* __restrict__ betas, T* y) {
  constexpr int kElements = Row::kElements;
  const float inverse = 1.0f / static_cast<float>(n.width);
  for_rows<Row>(n.rows, [&](std::int64_t row) {
    const Row x(n.x + row * n.width, n.width);
    const float mean = sum_over(n.width, x, [](float e) { return e; }) * inverse;
    const float variance = sum_over(n.width, x, [=](float e) { return (e - mean) * (e - mean); }) * inverse;
    const float rstd = 1.0f / sqrtf(variance + n.epsilon);
    Row::for_each(n.width, [&](int p, std::int64_t column) {
      const Pack<float, kElements> of_x = x.at(p, column), gamma = load_pack<kElements>(gammas + column),
                                   beta = load_pack<kElements>(betas + column);
      Pack<T, kElements> of_y;
#pragma unroll
      for (int e = 0; e < kElements; ++e) of_y.at[e] = narrow<T>((of_x.at[e] - mean) * rstd * gamma.at[e] + beta.at[e]);
      store_pack(of_y, y + row * n.width + column);
    });
    if (threadIdx.x % Row::kThreads == 0) n.mean[row] = mean, n.rstd[row] = rstd;
  });
}

struct LayerNormRows {
  using Dy = float;
  using X = float;
  static constexpr bool kCentred = true;
  struct Row {
    float mean, rstd;
  };
  const float *mean, *rstd;

  __device__ __forceinline__ Row row(std::int64_t r) const { return {mean[r], rstd[r]}; }
  __device__ __forceinline__ float z(float x, const Row& row) const { return (x - row.mean) * row.rstd; }
  __device__ __forceinline__ float in_y(float z) const { return z; }
  // dx = rstd (dy gamma - mean(dy gamma) - z mean(dy gamma z))
  __device__ __forceinline__ float slope(float scaled, float z, const Row& row, const RowSums& means) const {
    return (scaled - means.gradient - z * means.projection) * row.rstd;
  }
};

}  // namespace
}  // namespace cuda

namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto epsilon = static_cast<float>(request.attributes->as<ops::LayerNormAttributes>().epsilon);
  const Rows x(request.inputs[0]);
  const auto bind_to = [&]<class T>(T) {
    return cuda::with_row(x.width, [&]<class Row>(std::type_identity<Row>) {
      return make_kernel([x, epsilon](const KernelCall& call) {
        const cuda::LayerNorm n{x.rows, x.width, epsilon, call.in(0), call.out(1), call.out(2)};
        cuda::launch(cuda::layer_norm_kernel<Row, T>, cuda::grid_of_rows<Row>(x.rows), call.stream, n, call.in(1), call.in(2),
                     call.out<T>(0));
      });
    });
  };
  const DType output = request.outputs[0].dtype;
  if (output == DType::bf16) return bind_to(cuda::Bf16{});
  if (output == DType::f16) return bind_to(F16{});
  return bind_to(0.0f);
}

template <class M>
std::unique_ptr<Kernel> bind_backward_of(const KernelRequest& request) {
  const bool add = accumulates<ops::LayerNormBackwardAttributes>(request);
  using N = cuda::LayerNormRows;
  cuda::allow_backward_shared<N, M>();
  return make_kernel([layout = cuda_layer_norm_layout(request), add](const KernelCall& call) {
    constexpr std::size_t kFirst = M::kX ? 1 : 0;  // of the sums
    const cuda::NormBackward<N> n{layout.rows,
                                  layout.width,
                                  call.in(0),
                                  call.in(1),
                                  call.in(4),
                                  M::kX ? call.out(0) : nullptr,
                                  reinterpret_cast<float*>(call.scratch),
                                  {call.in(2), call.in(3)}};
    cuda::run_backward<N, M>(n, layout, call.stream);
    if constexpr (M::kSums == 0) return;
    const cuda::ColumnSums sums{call.out(kFirst), M::kSums == 2 ? call.out(kFirst + 1) : nullptr, add};
    cuda::add_groups(layout.groups, M::kSums * layout.width, n.partials, sums, call.stream);
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  using cuda::Makes;
  const auto& made = request.attributes->as<ops::LayerNormBackwardAttributes>();
  if (!made.x) {
    return made.beta ? bind_backward_of<Makes<false, true, true>>(request) : bind_backward_of<Makes<false, true, false>>(request);
  }
  if (made.gamma && made.beta) return bind_backward_of<Makes<true, true, true>>(request);
  if (made.gamma) return bind_backward_of<Makes<true, true, false>>(request);
  if (made.beta) return bind_backward_of<Makes<true, false, true>>(request);
  return bind_backward_of<Makes<true, false, false>>(request);
}

}  // namespace

CudaKernels norm_cuda_kernels() { return {{&ops::kLayerNorm, bind}, {&ops::kLayerNormBackward, bind_backward}}; }

}  // namespace plimsoll
