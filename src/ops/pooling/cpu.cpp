#include "ops/kernel.h"
#include "ops/pooling/kernels.h"
#include "ops/pooling/pooling.h"

namespace plimsoll {
namespace {

template <class A>
cpu::PoolShape pool_shape(const Shape& x, const A& a) {
  return {x[0], x[1], x[2], x[3], a.kernel_h, a.kernel_w, a.window};
}

std::unique_ptr<Kernel> bind_max(const KernelRequest& request) {
  const cpu::PoolShape shape = pool_shape(request.inputs[0].shape, request.attributes->as<ops::PoolAttributes>());
  return make_kernel([shape, type = request.inputs[0].dtype](const KernelCall& call) {
    cpu::max_pool(shape, {call.inputs[0], type}, {call.outputs[0], type}, call.out<std::uint8_t>(1));
  });
}

std::unique_ptr<Kernel> bind_max_backward(const KernelRequest& request) {
  const cpu::PoolShape shape = pool_shape(request.outputs[0].shape, request.attributes->as<ops::PoolBackwardAttributes>());
  return make_kernel([shape, type = request.inputs[0].dtype](const KernelCall& call) {
    cpu::max_pool_backward(shape, {call.inputs[0], type}, call.in<std::uint8_t>(1), {call.outputs[0], type});
  });
}

// Images as positions: all axes between the first and the last one.
struct Positions {
  std::int64_t batch, count, channels;
  explicit Positions(const Shape& x) : batch(x[0]), count(x.elements() / (x[0] * x.last())), channels(x.last()) {}
};

std::unique_ptr<Kernel> bind_mean(const KernelRequest& request) {
  return make_kernel([x = Positions(request.inputs[0].shape), from = request.inputs[0].dtype,
                      to = request.outputs[0].dtype](const KernelCall& call) {
    cpu::mean_pool(x.batch, x.count, x.channels, {call.inputs[0], from}, {call.outputs[0], to});
  });
}

std::unique_ptr<Kernel> bind_mean_backward(const KernelRequest& request) {
  return make_kernel([x = Positions(request.outputs[0].shape), from = request.inputs[0].dtype,
                      to = request.outputs[0].dtype](const KernelCall& call) {
    cpu::mean_pool_backward(x.batch, x.count, x.channels, {call.inputs[0], from}, {call.outputs[0], to});
  });
}

}  // namespace

CpuKernels pooling_cpu_kernels() {
  return {{&ops::kMaxPool, nullptr, bind_max},
          {&ops::kMaxPoolBackward, nullptr, bind_max_backward},
          {&ops::kMeanPool, nullptr, bind_mean},
          {&ops::kMeanPoolBackward, nullptr, bind_mean_backward}};
}

}  // namespace plimsoll
