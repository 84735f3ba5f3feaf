#include "ops/kernel.h"
#include "ops/rotary/frequencies.h"
#include "ops/rotary/kernels.h"
#include "ops/rotary/rotary.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::RotaryAttributes>();
  const Shape& x = request.inputs[0].shape;
  const cpu::RotaryShape shape{x[0], x[1], x[2] / a.head_size, a.head_size, a.interleaved, a.inverse};
  return make_kernel(
      [shape, table = ops::rotary_table(a), type = request.inputs[0].dtype, positions = a.positions](const KernelCall& call) {
        cpu::rotate(shape, table.inverse_frequencies, table.attention_factor, positions ? call.in<std::int32_t>(1) : nullptr,
                    {call.inputs[0], type}, {call.outputs[0], type});
      });
}

}  // namespace

CpuKernels rotary_cpu_kernels() { return {{&ops::kRotary, nullptr, bind}}; }

}  // namespace plimsoll
