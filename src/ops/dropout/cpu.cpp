#include "ops/check.h"
#include "ops/dropout/dropout.h"
#include "ops/dropout/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::DropoutAttributes>();
  const Shape& x = request.inputs[0].shape;
  const bool tokens = ops::name_tokens(request.inputs[1].shape);
  const std::int64_t rows = tokens ? x[0] * x[1] : x[0], elements = x.elements() / rows;
  return make_kernel([rows, elements, tokens, attributes](const KernelCall& call) {
    const cpu::DropoutNoise noise{static_cast<float>(attributes.probability), attributes.key, call.in<std::uint32_t>(1), tokens};
    cpu::dropout(rows, elements, noise, call.in(0), call.out(0));
  });
}

}  // namespace

CpuKernels dropout_cpu_kernels() { return {{&ops::kDropout, nullptr, bind}}; }

}  // namespace plimsoll
