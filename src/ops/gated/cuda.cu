#include <type_traits>

#include "ops/cuda_kernel.h"
#include "ops/elementwise/activations.cuh"
#include "ops/elementwise/map.cuh"
#include "ops/gated/gated.h"

namespace plimsoll {
namespace cuda {
namespace {

using ops::Activation;

template <Activation kActivation>
__device__ __forceinline__ Curve curve(float x) {
  if constexpr (kActivation == Activation::silu) return silu(x);
  if constexpr (kActivation == Activation::gelu_tanh) return gelu_tanh(x);
  if constexpr (kActivation == Activation::gelu_erf) return gelu_erf(x);
}

template <Activation kActivation>
struct Gated {
  __device__ float operator()(float gate, float up) const { return curve<kActivation>(gate).value * up; }
};

template <class T>
struct GatedBackward {
  std::int64_t n;
  const T *d_out, *gate, *up;
  T *d_gate, *d_up;  // null: not made
};

// Gradients may overwrite the inputs: a thread reads all of its pack before it writes.
template <Activation kActivation, int kElements, class T>
__global__ void __launch_bounds__(kMapThreads) gated_backward_kernel(GatedBackward<T> g) {
  for (std::int64_t i = thread_of_grid() * kElements; i < g.n; i += threads_of_grid() * kElements) {
    const Pack<T, kElements> d_out = load_pack<kElements>(g.d_out + i), gate = load_pack<kElements>(g.gate + i);
    Pack<T, kElements> up{}, d_gate, d_up;
    if (g.d_gate != nullptr) up = load_pack<kElements>(g.up + i);
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const float d = widen(d_out.at[e]);
      const Curve at = curve<kActivation>(widen(gate.at[e]));
      d_gate.at[e] = narrow<T>(d * widen(up.at[e]) * at.derivative);
      d_up.at[e] = narrow<T>(d * at.value);
    }
    if (g.d_gate != nullptr) store_pack(d_gate, g.d_gate + i);
    if (g.d_up != nullptr) store_pack(d_up, g.d_up + i);
  }
}

template <Activation kActivation, class T>
void run_backward(const GatedBackward<T>& g, void* stream) {
  constexpr int kElements = kMapPack<T>;
  if (g.n % kElements == 0) {
    return launch(gated_backward_kernel<kActivation, kElements, T>, grid_over(g.n, kMapThreads, kMapThreads * kElements), stream,
                  g);
  }
  launch(gated_backward_kernel<kActivation, 1, T>, grid_over(g.n, kMapThreads, kMapThreads), stream, g);
}

}  // namespace
}  // namespace cuda

namespace {

using ops::Activation;

// Calls f with an activation as a type and a number of the operands' type.
template <class F>
std::unique_ptr<Kernel> with_activation(Activation activation, DType dtype, F f) {
  const auto with = [&]<class T>(T number) {
    switch (activation) {
      case Activation::silu: return f(std::integral_constant<Activation, Activation::silu>{}, number);
      case Activation::gelu_tanh: return f(std::integral_constant<Activation, Activation::gelu_tanh>{}, number);
      case Activation::gelu_erf: break;
    }
    return f(std::integral_constant<Activation, Activation::gelu_erf>{}, number);
  };
  if (dtype == DType::bf16) return with(cuda::Bf16{});
  if (dtype == DType::f16) return with(F16{});
  return with(0.0f);
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const ValueType& type = request.outputs[0];
  const auto& attributes = request.attributes->as<ops::GatedAttributes>();
  return with_activation(attributes.activation, type.dtype, [&]<class A, class T>(A, T) {
    return make_kernel([n = type.shape.elements()](const KernelCall& call) {
      cuda::map(n, cuda::Gated<A::value>{}, call.stream, call.out<T>(0), call.in<T>(0), call.in<T>(1));
    });
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  const ValueType& type = request.outputs[0];
  const auto& made = request.attributes->as<ops::GatedBackwardAttributes>();
  return with_activation(made.activation, type.dtype, [&]<class A, class T>(A, T) {
    return make_kernel([n = type.shape.elements(), gate = made.gate, up = made.up](const KernelCall& call) {
      const cuda::GatedBackward<T> g{n,
                                     call.in<T>(0),
                                     call.in<T>(1),
                                     call.in<T>(2),
                                     gate ? call.out<T>(0) : nullptr,
                                     up ? call.out<T>(gate ? 1 : 0) : nullptr};
      cuda::run_backward<A::value>(g, call.stream);
    });
  });
}

}  // namespace

CudaKernels gated_cuda_kernels() { return {{&ops::kGated, bind}, {&ops::kGatedBackward, bind_backward}}; }

}  // namespace plimsoll
