#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/kernels.h"
#include "ops/kernel.h"
#include "ops/shape/kernels.h"
#include "ops/update/kernels.h"

namespace plimsoll {
namespace {

std::int64_t elements(const KernelRequest& request) { return request.outputs[0].shape.elements(); }

template <void (*kFunction)(std::int64_t, const float*, const float*, float*)>
std::unique_ptr<Kernel> bind_binary(const KernelRequest& request) {
  return make_kernel([n = elements(request)](const KernelCall& call) { kFunction(n, call.in(0), call.in(1), call.out(0)); });
}

template <void (*kFunction)(std::int64_t, cpu::ConstElements, cpu::Elements)>
std::unique_ptr<Kernel> bind_activation(const KernelRequest& request) {
  return make_kernel([n = elements(request), type = request.inputs[0].dtype](const KernelCall& call) {
    kFunction(n, {call.inputs[0], type}, {call.outputs[0], type});
  });
}

template <void (*kFunction)(std::int64_t, cpu::ConstElements, cpu::ConstElements, cpu::Elements)>
std::unique_ptr<Kernel> bind_activation_backward(const KernelRequest& request) {
  return make_kernel([n = elements(request), type = request.inputs[0].dtype](const KernelCall& call) {
    kFunction(n, {call.inputs[0], type}, {call.inputs[1], type}, {call.outputs[0], type});
  });
}

std::unique_ptr<Kernel> bind_scale(const KernelRequest& request) {
  const auto factor = static_cast<float>(request.attributes->as<ops::ScaleAttributes>().factor);
  return make_kernel([n = elements(request), factor](const KernelCall& call) { cpu::scale(n, call.in(0), factor, call.out(0)); });
}

std::unique_ptr<Kernel> bind_accumulate(const KernelRequest& request) {
  return make_kernel([n = elements(request), overwrite = request.overwrite](const KernelCall& call) {
    if (overwrite) {
      cpu::copy(Bytes{n * 4}, call.in(0), call.out(0));
    } else {
      cpu::add(n, call.in(1), call.in(0), call.out(0));
    }
  });
}

std::unique_ptr<Kernel> bind_accumulate_rounded(const KernelRequest& request) {
  const auto key = request.attributes->as<ops::RoundingAttributes>().rounding;
  return make_kernel([n = elements(request), key, overwrite = request.overwrite](const KernelCall& call) {
    const auto* step = call.in<std::uint32_t>(1);
    const std::uint64_t drawn = step[0] | std::uint64_t{step[1]} << 32;  // differs for each update and each micro-step
    cpu::accumulate_rounded(n, call.in(0), !overwrite, call.out<std::uint16_t>(0), {key, drawn, 0});
  });
}

}  // namespace

CpuKernels elementwise_cpu_kernels() {
  return {{&ops::kAdd, nullptr, bind_binary<cpu::add>},
          {&ops::kMultiply, nullptr, bind_binary<cpu::multiply>},
          {&ops::kScale, nullptr, bind_scale},
          {&ops::kGelu, nullptr, bind_activation<cpu::gelu_tanh_forward>},
          {&ops::kGeluBackward, nullptr, bind_activation_backward<cpu::gelu_tanh_backward>},
          {&ops::kRelu, nullptr, bind_activation<cpu::relu_forward>},
          {&ops::kReluBackward, nullptr, bind_activation_backward<cpu::relu_backward>},
          {&ops::kRelu6, nullptr, bind_activation<cpu::relu6_forward>},
          {&ops::kRelu6Backward, nullptr, bind_activation_backward<cpu::relu6_backward>},
          {&ops::kSilu, nullptr, bind_activation<cpu::silu_forward>},
          {&ops::kSiluBackward, nullptr, bind_activation_backward<cpu::silu_backward>},
          {&ops::kGeluErf, nullptr, bind_activation<cpu::gelu_erf_forward>},
          {&ops::kGeluErfBackward, nullptr, bind_activation_backward<cpu::gelu_erf_backward>},
          {&ops::kAccumulate, nullptr, bind_accumulate},
          {&ops::kAccumulateRounded, nullptr, bind_accumulate_rounded}};
}

}  // namespace plimsoll
