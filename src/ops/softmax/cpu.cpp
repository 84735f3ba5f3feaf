#include "ops/kernel.h"
#include "ops/softmax/kernels.h"
#include "ops/softmax/softmax.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const std::int64_t width = request.inputs[0].shape.last(), rows = request.inputs[0].shape.elements() / width;
  return make_kernel([rows, width](const KernelCall& call) { cpu::softmax_forward(rows, width, call.in(0), call.out(0)); });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  const std::int64_t width = request.inputs[0].shape.last(), rows = request.inputs[0].shape.elements() / width;
  return make_kernel(
      [rows, width](const KernelCall& call) { cpu::softmax_backward(rows, width, call.in(1), call.in(0), call.out(0)); });
}

}  // namespace

CpuKernels softmax_cpu_kernels() { return {{&ops::kSoftmax, nullptr, bind}, {&ops::kSoftmaxBackward, nullptr, bind_backward}}; }

}  // namespace plimsoll
