#include "ops/rms_norm/cuda.h"

#include "ops/cuda_kernel.h"
#include "ops/norm/backward.cuh"

namespace plimsoll {
namespace cuda {
namespace {

// x in a type, as fp32. The types of y are told apart at run time, since a kernel for each pair of types would do no better.
__device__ __forceinline__ float rounded_to(DType type, float x) {
  if (type == DType::bf16) return widen(narrow<Bf16>(x));
  if (type == DType::f16) return widen(narrow<F16>(x));
  return x;
}

// Stores elements from `at` on as that type.
template <int kElements>
__device__ __forceinline__ void store_as(DType type, const Pack<float, kElements>& floats, void* to, std::int64_t at) {
  if (type == DType::bf16) return store_floats(floats, static_cast<Bf16*>(to) + at);
  if (type == DType::f16) return store_floats(floats, static_cast<F16*>(to) + at);
  store_floats(floats, static_cast<float*>(to) + at);
}

template <class T>
struct RmsNorm {
  std::int64_t rows, width;
  float epsilon;
  DType output;
  const T* x;
  const float* weight;
  void* y;
  float* rstd;
};

template <class Row, class T>
__global__ void __launch_bounds__(Row::kBlock) rms_norm_kernel(RmsNorm<T> n) {
  constexpr int kElements = Row::kElements;
  const float inverse = 1.0f / static_cast<float>(n.width);
  for_rows<Row>(n.rows, [&](std::int64_t row) {
    const Row x(n.x + row * n.width, n.width);
    const float rstd = 1.0f / sqrtf(sum_over(n.width, x, [](float e) { return e * e; }) * inverse + n.epsilon);
    Row::for_each(n.width, [&](int p, std::int64_t column) {
      const Pack<float, kElements> of_x = x.at(p, column), weight = load_pack<kElements>(n.weight + column);
      Pack<float, kElements> of_y;
#pragma unroll
      for (int e = 0; e < kElements; ++e) of_y.at[e] = rounded_to(n.output, of_x.at[e] * rstd) * weight.at[e];
      store_as(n.output, of_y, n.y, row * n.width + column);
    });
    if (threadIdx.x % Row::kThreads == 0) n.rstd[row] = rstd;
  });
}

template <class D, class T>
struct RmsNormRows {
  using Dy = D;
  using X = T;
  static constexpr bool kCentred = false;
  struct Row {
    float rstd;
  };
  const float* rstd;
  DType output;

  __device__ __forceinline__ Row row(std::int64_t r) const { return {rstd[r]}; }
  __device__ __forceinline__ float z(float x, const Row& row) const { return x * row.rstd; }
  __device__ __forceinline__ float in_y(float z) const { return rounded_to(output, z); }
  // dx = rstd (dy weight - z mean(dy weight z))
  __device__ __forceinline__ float slope(float scaled, float z, const Row& row, const RowSums& means) const {
    return (scaled - z * means.projection) * row.rstd;
  }
};

}  // namespace
}  // namespace cuda

namespace {

// Calls f with a number of the type.
template <class F>
std::unique_ptr<Kernel> with_type(DType dtype, F f) {
  if (dtype == DType::bf16) return f(cuda::Bf16{});
  if (dtype == DType::f16) return f(F16{});
  return f(0.0f);
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto epsilon = static_cast<float>(request.attributes->as<ops::RmsNormAttributes>().epsilon);
  const DType output = request.outputs[0].dtype;
  const std::int64_t rows = request.outputs[1].shape[0], width = request.inputs[1].shape[0];
  return with_type(request.inputs[0].dtype, [&]<class T>(T) {
    return cuda::with_row<T>(width, [&]<class Row>(std::type_identity<Row>) {
      return make_kernel([=](const KernelCall& call) {
        const cuda::RmsNorm<T> n{rows, width, epsilon, output, call.in<T>(0), call.in(1), call.outputs[0], call.out(1)};
        cuda::launch(cuda::rms_norm_kernel<Row, T>, cuda::grid_of_rows<Row>(rows), call.stream, n);
      });
    });
  });
}

// The operands of both backward ops begin with dy, x and rstd.
template <class N>
cuda::NormBackward<N> backward_of(const CudaNormLayout& layout, DType output, const KernelCall& call) {
  return {.rows = layout.rows,
          .width = layout.width,
          .dy = call.in<typename N::Dy>(0),
          .x = call.in<typename N::X>(1),
          .partials = reinterpret_cast<float*>(call.scratch),
          .norm = {call.in(2), output}};
}

template <class T, class M>
std::unique_ptr<Kernel> bind_backward_of(const KernelRequest& request) {
  using N = cuda::RmsNormRows<T, T>;
  const bool add = accumulates<ops::RmsNormBackwardAttributes>(request);
  const DType output = request.attributes->as<ops::RmsNormBackwardAttributes>().output;
  cuda::allow_backward_shared<N, M>();
  return make_kernel([layout = cuda_rms_norm_layout(request), output, add](const KernelCall& call) {
    cuda::NormBackward<N> n = backward_of<N>(layout, output, call);
    n.gamma = call.in(3);
    n.dx = call.out<T>(0);
    cuda::run_backward<N, M>(n, layout, call.stream);
    if constexpr (M::kGamma) cuda::add_groups(layout.groups, layout.width, n.partials, {call.out(1), nullptr, add}, call.stream);
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  const bool weight = request.attributes->as<ops::RmsNormBackwardAttributes>().weight;
  return with_type(request.inputs[1].dtype, [&]<class T>(T) {
    return weight ? bind_backward_of<T, cuda::Makes<true, true, false>>(request)
                  : bind_backward_of<T, cuda::Makes<true, false, false>>(request);
  });
}

std::unique_ptr<Kernel> bind_weight(const KernelRequest& request) {
  const bool add = accumulates<ops::RmsNormBackwardAttributes>(request);
  const DType output = request.attributes->as<ops::RmsNormBackwardAttributes>().output;
  return with_type(request.inputs[0].dtype, [&]<class D>(D) {
    return with_type(request.inputs[1].dtype, [&]<class T>(T) {
      using N = cuda::RmsNormRows<D, T>;
      return make_kernel([layout = cuda_rms_norm_layout(request), output, add](const KernelCall& call) {
        const cuda::NormBackward<N> n = backward_of<N>(layout, output, call);
        cuda::run_passed_backward<N, cuda::Makes<false, true, false>>(n, layout, call.stream);
        cuda::add_groups(layout.groups, layout.width, n.partials, {call.out(0), nullptr, add}, call.stream);
      });
    });
  });
}

}  // namespace

CudaKernels rms_norm_cuda_kernels() {
  return {{&ops::kRmsNorm, bind}, {&ops::kRmsNormBackward, bind_backward}, {&ops::kRmsNormWeightGradient, bind_weight}};
}

}  // namespace plimsoll
