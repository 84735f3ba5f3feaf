#include "ops/cast/cast.h"
#include "ops/cast/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const DType from = request.inputs[0].dtype, to = request.outputs[0].dtype;
  const std::int64_t n = request.inputs[0].shape.elements();
  if (from == DType::f32) {
    const auto narrow = to == DType::bf16 ? cpu::cast_f32_to_bf16 : cpu::cast_f32_to_f16;
    return make_kernel([n, narrow](const KernelCall& call) { narrow(n, call.in(0), call.out<std::uint16_t>(0)); });
  }
  const auto widen = from == DType::bf16 ? cpu::cast_bf16_to_f32 : cpu::cast_f16_to_f32;
  return make_kernel([n, widen](const KernelCall& call) { widen(n, call.in<std::uint16_t>(0), call.out(0)); });
}

}  // namespace

CpuKernels cast_cpu_kernels() { return {{&ops::kCast, nullptr, bind}}; }

}  // namespace plimsoll
