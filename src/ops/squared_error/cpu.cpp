#include "ops/kernel.h"
#include "ops/squared_error/kernels.h"
#include "ops/squared_error/squared_error.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return make_kernel([n = request.outputs[0].shape.elements()](const KernelCall& call) {
    cpu::squared_error_forward(n, call.in(0), call.in(1), call.out(0));
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  return make_kernel([n = request.outputs[0].shape.elements()](const KernelCall& call) {
    cpu::squared_error_backward(n, call.in(0), call.in(1), *call.in(2), call.out(0));
  });
}

}  // namespace

CpuKernels squared_error_cpu_kernels() {
  return {{&ops::kSquaredError, nullptr, bind}, {&ops::kSquaredErrorBackward, nullptr, bind_backward}};
}

}  // namespace plimsoll
