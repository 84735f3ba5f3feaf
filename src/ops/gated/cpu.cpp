#include "ops/gated/gated.h"
#include "ops/gated/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const ValueType& type = request.outputs[0];
  const ops::Activation activation = request.attributes->as<ops::GatedAttributes>().activation;
  return make_kernel([n = type.shape.elements(), dtype = type.dtype, activation](const KernelCall& call) {
    cpu::gated_forward(n, activation, {call.inputs[0], dtype}, {call.inputs[1], dtype}, {call.outputs[0], dtype});
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  const ValueType& type = request.outputs[0];
  const auto made = request.attributes->as<ops::GatedBackwardAttributes>();
  return make_kernel([n = type.shape.elements(), dtype = type.dtype, made](const KernelCall& call) {
    cpu::gated_backward(n, made.activation, {call.inputs[0], dtype}, {call.inputs[1], dtype}, {call.inputs[2], dtype},
                        {made.gate ? call.outputs.front() : nullptr, dtype}, {made.up ? call.outputs.back() : nullptr, dtype});
  });
}

}  // namespace

CpuKernels gated_cpu_kernels() { return {{&ops::kGated, nullptr, bind}, {&ops::kGatedBackward, nullptr, bind_backward}}; }

}  // namespace plimsoll
