#include "ops/cuda_kernel.h"
#include "ops/elementwise/activations.cuh"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/map.cuh"
#include "ops/update/rounding.cuh"
#include "ops/update/taken.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct Multiply {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct Scale {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
};
struct Relu {
  __device__ float operator()(float x) const { return x > 0 ? x : x != x ? x : 0; }
};
struct ReluBackward {
  __device__ float operator()(float dy, float x) const { return x > 0 ? dy : 0; }
};

struct Relu6 {
  __device__ float operator()(float x) const { return x > 6 ? 6 : x < 0 ? 0 : x; }
};
struct Relu6Backward {
  __device__ float operator()(float dy, float x) const { return x > 0 && x < 6 ? dy : 0; }
};

struct Gelu {
  __device__ float operator()(float x) const { return gelu_tanh(x).value; }
};
struct GeluBackward {
  __device__ float operator()(float dy, float x) const { return dy * gelu_tanh(x).derivative; }
};

struct Silu {
  __device__ float operator()(float x) const { return silu(x).value; }
};
struct SiluBackward {
  __device__ float operator()(float dy, float x) const { return dy * silu(x).derivative; }
};

struct GeluErf {
  __device__ float operator()(float x) const { return gelu_erf(x).value; }
};
struct GeluErfBackward {
  __device__ float operator()(float dy, float x) const { return dy * gelu_erf(x).derivative; }
};

__global__ void __launch_bounds__(kMapThreads)
    accumulate_rounded_kernel(std::int64_t n, const float* g, const std::uint32_t* step, bool add, Bf16* into, NoiseKey key) {
  const Rounding rounding{key, {step[0], step[1]}};
  for (std::int64_t group = thread_of_grid(); 4 * group < n; group += threads_of_grid()) {
    const PhiloxWords words = rounding.words(group);
    const Four<float> more = load_four<false>(g, 4 * group, n);
    Four<Bf16> sum{};
    if (add) sum = load_four<false>(into, 4 * group, n);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum.at[e] = round_by(add ? widen(sum.at[e]) + more.at[e] : more.at[e], words[e]);
    store_four<false>(sum, into, 4 * group, n);
  }
}

}  // namespace
}  // namespace cuda

namespace {

std::int64_t elements(const KernelRequest& request) { return request.outputs[0].shape.elements(); }

template <class F>
std::unique_ptr<Kernel> bind_binary(const KernelRequest& request) {
  return make_kernel(
      [n = elements(request)](const KernelCall& call) { cuda::map(n, F{}, call.stream, call.out(0), call.in(0), call.in(1)); });
}

// Binds F to its number of inputs, for any dtype.
template <class F, std::size_t... kInput>
std::unique_ptr<Kernel> bind_activation(const KernelRequest& request) {
  const auto bind = [n = elements(request)]<class T>(T) {
    return make_kernel([n](const KernelCall& call) { cuda::map(n, F{}, call.stream, call.out<T>(0), call.in<T>(kInput)...); });
  };
  if (request.inputs[0].dtype == DType::bf16) return bind(cuda::Bf16{});
  if (request.inputs[0].dtype == DType::f16) return bind(F16{});
  return bind(0.0f);
}

std::unique_ptr<Kernel> bind_scale(const KernelRequest& request) {
  const cuda::Scale scale{static_cast<float>(request.attributes->as<ops::ScaleAttributes>().factor)};
  return make_kernel(
      [n = elements(request), scale](const KernelCall& call) { cuda::map(n, scale, call.stream, call.out(0), call.in(0)); });
}

std::unique_ptr<Kernel> bind_accumulate(const KernelRequest& request) {
  return make_kernel([n = elements(request), overwrite = request.overwrite](const KernelCall& call) {
    if (overwrite) return cuda::map(n, cuda::Same{}, call.stream, call.out(0), call.in(0));
    cuda::map(n, cuda::Add{}, call.stream, call.out(0), call.in(1), call.in(0));
  });
}

std::unique_ptr<Kernel> bind_accumulate_rounded(const KernelRequest& request) {
  const auto key = request.attributes->as<ops::RoundingAttributes>().rounding;
  return make_kernel([n = elements(request), key, add = !request.overwrite](const KernelCall& call) {
    cuda::launch(cuda::accumulate_rounded_kernel, cuda::grid_over(n, cuda::kMapThreads, 4 * cuda::kMapThreads), call.stream, n,
                 call.in(0), call.in<std::uint32_t>(1), add, call.out<cuda::Bf16>(0), key);
  });
}

}  // namespace

CudaKernels elementwise_cuda_kernels() {
  return {{&ops::kAdd, bind_binary<cuda::Add>},
          {&ops::kMultiply, bind_binary<cuda::Multiply>},
          {&ops::kScale, bind_scale},
          {&ops::kGelu, bind_activation<cuda::Gelu, 0>},
          {&ops::kGeluBackward, bind_activation<cuda::GeluBackward, 0, 1>},
          {&ops::kRelu, bind_activation<cuda::Relu, 0>},
          {&ops::kReluBackward, bind_activation<cuda::ReluBackward, 0, 1>},
          {&ops::kRelu6, bind_activation<cuda::Relu6, 0>},
          {&ops::kRelu6Backward, bind_activation<cuda::Relu6Backward, 0, 1>},
          {&ops::kSilu, bind_activation<cuda::Silu, 0>},
          {&ops::kSiluBackward, bind_activation<cuda::SiluBackward, 0, 1>},
          {&ops::kGeluErf, bind_activation<cuda::GeluErf, 0>},
          {&ops::kGeluErfBackward, bind_activation<cuda::GeluErfBackward, 0, 1>},
          {&ops::kAccumulate, bind_accumulate},
          {&ops::kAccumulateRounded, bind_accumulate_rounded}};
}

}  // namespace plimsoll
