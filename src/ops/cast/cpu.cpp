#include "device/cpu/cast.h"
#include "ops/cast/cast.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const DType from = request.inputs[0].dtype, to = request.outputs[0].dtype;
  return make_kernel([n = request.inputs[0].shape.elements(), from, to](const KernelCall& call) {
    cpu::cast(n, {call.inputs[0], from}, {call.outputs[0], to});
  });
}

}  // namespace

CpuKernels cast_cpu_kernels() { return {{&ops::kCast, nullptr, bind}}; }

}  // namespace plimsoll
