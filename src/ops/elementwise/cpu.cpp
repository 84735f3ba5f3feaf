#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/kernels.h"
#include "ops/kernel.h"
#include "ops/shape/kernels.h"

namespace plimsoll {
namespace {

std::int64_t elements(const KernelRequest& request) { return request.outputs[0].shape.elements(); }

template <void (*kFunction)(std::int64_t, const float*, const float*, float*)>
std::unique_ptr<Kernel> bind_binary(const KernelRequest& request) {
  return make_kernel([n = elements(request)](const KernelCall& call) { kFunction(n, call.in(0), call.in(1), call.out(0)); });
}

template <void (*kFunction)(std::int64_t, const float*, float*)>
std::unique_ptr<Kernel> bind_unary(const KernelRequest& request) {
  return make_kernel([n = elements(request)](const KernelCall& call) { kFunction(n, call.in(0), call.out(0)); });
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

}  // namespace

CpuKernels elementwise_cpu_kernels() {
  return {{&ops::kAdd, nullptr, bind_binary<cpu::add>},
          {&ops::kMultiply, nullptr, bind_binary<cpu::multiply>},
          {&ops::kScale, nullptr, bind_scale},
          {&ops::kGelu, nullptr, bind_unary<cpu::gelu_tanh_forward>},
          {&ops::kGeluBackward, nullptr, bind_binary<cpu::gelu_tanh_backward>},
          {&ops::kRelu, nullptr, bind_unary<cpu::relu_forward>},
          {&ops::kReluBackward, nullptr, bind_binary<cpu::relu_backward>},
          {&ops::kAccumulate, nullptr, bind_accumulate}};
}

}  // namespace plimsoll
