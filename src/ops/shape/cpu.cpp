#include "ops/kernel.h"
#include "ops/shape/kernels.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll {
namespace {

// Plans have no instruction for a view; tests run it as a copy.
std::unique_ptr<Kernel> bind_reshape(const KernelRequest& request) {
  const Bytes bytes{dense_bytes(request.outputs[0].shape, request.outputs[0].dtype)};
  return make_kernel([bytes](const KernelCall& call) {
    if (call.inputs[0] != call.outputs[0]) cpu::copy(bytes, call.inputs[0], call.outputs[0]);
  });
}

std::unique_ptr<Kernel> bind_transpose(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const std::int64_t rows = x.last(1), columns = x.last(), batch = x.elements() / (rows * columns);
  return make_kernel(
      [batch, rows, columns](const KernelCall& call) { cpu::transpose(batch, rows, columns, call.in(0), call.out(0)); });
}

}  // namespace

CpuKernels shape_cpu_kernels() { return {{&ops::kReshape, nullptr, bind_reshape}, {&ops::kTranspose, nullptr, bind_transpose}}; }

}  // namespace plimsoll
