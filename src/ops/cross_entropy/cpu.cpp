#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cross_entropy/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

cpu::ClassRows rows_of(const KernelRequest& request) {
  const Rows x(request.inputs[0]);
  return {x.rows, x.width, request.attributes->as<ops::CrossEntropyAttributes>().label_smoothing};
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return make_kernel([x = rows_of(request)](const KernelCall& call) {
    cpu::cross_entropy_forward(x, call.in(0), call.in<std::int32_t>(1), call.out(0));
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  return make_kernel([x = rows_of(request)](const KernelCall& call) {
    cpu::cross_entropy_backward(x, call.in(0), call.in<std::int32_t>(1), *call.in(2), call.out(0));
  });
}

}  // namespace

CpuKernels cross_entropy_cpu_kernels() {
  return {{&ops::kCrossEntropy, nullptr, bind}, {&ops::kCrossEntropyBackward, nullptr, bind_backward}};
}

}  // namespace plimsoll
