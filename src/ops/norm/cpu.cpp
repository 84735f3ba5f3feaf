#include "ops/kernel.h"
#include "ops/norm/kernels.h"
#include "ops/norm/norm.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto epsilon = static_cast<float>(request.attributes->as<ops::LayerNormAttributes>().epsilon);
  const auto bind_to = [&]<class T>(T) {
    return make_kernel([x = Rows(request.inputs[0]), epsilon](const KernelCall& call) {
      cpu::layer_norm_forward(x.rows, x.width, epsilon, call.in(0), call.in(1), call.in(2), call.out<T>(0), call.out(1),
                              call.out(2));
    });
  };
  const DType output = request.outputs[0].dtype;
  if (output == DType::bf16) return bind_to(std::uint16_t{});
  if (output == DType::f16) return bind_to(F16{});
  return bind_to(0.0F);
}

KernelChoice choose_backward(const KernelRequest& request) {
  const Rows x(request.inputs[1]);
  return own_kernel(cpu::layer_norm_backward_scratch(x.rows, x.width));
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  const bool accumulate = accumulates<ops::AccumulateAttributes>(request);
  return make_kernel([x = Rows(request.inputs[1]), accumulate](const KernelCall& call) {
    cpu::layer_norm_backward(x.rows, x.width, call.in(0), call.in(1), call.in(2), call.in(3), call.in(4), call.out(0),
                             call.out(1), call.out(2), accumulate, call.scratch);
  });
}

}  // namespace

CpuKernels norm_cpu_kernels() {
  return {{&ops::kLayerNorm, nullptr, bind}, {&ops::kLayerNormBackward, choose_backward, bind_backward}};
}

}  // namespace plimsoll
