#include "ops/kernel.h"
#include "ops/softmax/kernels.h"
#include "ops/softmax/softmax.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return make_kernel(
      [x = Rows(request.inputs[0])](const KernelCall& call) { cpu::softmax_forward(x.rows, x.width, call.in(0), call.out(0)); });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  return make_kernel([x = Rows(request.inputs[0])](const KernelCall& call) {
    cpu::softmax_backward(x.rows, x.width, call.in(1), call.in(0), call.out(0));
  });
}

}  // namespace

CpuKernels softmax_cpu_kernels() { return {{&ops::kSoftmax, nullptr, bind}, {&ops::kSoftmaxBackward, nullptr, bind_backward}}; }

}  // namespace plimsoll
