#include "ops/dropout/dropout.h"
#include "ops/dropout/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::DropoutAttributes>();
  const std::int64_t batch = request.inputs[0].shape[0], elements = request.inputs[0].shape.elements() / batch;
  return make_kernel([batch, elements, attributes](const KernelCall& call) {
    const cpu::DropoutNoise noise{static_cast<float>(attributes.probability), attributes.key, call.in<std::uint32_t>(1)};
    cpu::dropout(batch, elements, noise, call.in(0), call.out(0));
  });
}

}  // namespace

CpuKernels dropout_cpu_kernels() { return {{&ops::kDropout, nullptr, bind}}; }

}  // namespace plimsoll
