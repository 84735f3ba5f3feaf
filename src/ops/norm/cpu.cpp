#include "ops/kernel.h"
#include "ops/norm/kernels.h"
#include "ops/norm/norm.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto epsilon = static_cast<float>(request.attributes->as<ops::LayerNormAttributes>().epsilon);
  return make_kernel([x = Rows(request.inputs[0]), type = request.outputs[0].dtype, epsilon](const KernelCall& call) {
    cpu::layer_norm_forward(x.rows, x.width, epsilon, call.in(0), call.in(1), call.in(2), {call.outputs[0], type}, call.out(1),
                            call.out(2));
  });
}

struct Gradients {
  float *dx, *dgamma, *dbeta;  // null: not made
};
Gradients gradients_of(const ops::LayerNormBackwardAttributes& made, const KernelCall& call) {
  return {made.x ? call.out(0) : nullptr, made.gamma ? call.out(made.of_gamma()) : nullptr,
          made.beta ? call.out(made.of_beta()) : nullptr};
}

KernelChoice choose_backward(const KernelRequest& request) {
  const Rows x(request.inputs[1]);
  const auto& made = request.attributes->as<ops::LayerNormBackwardAttributes>();
  return own_kernel(cpu::layer_norm_backward_scratch(x.rows, x.width, made.sums()));
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  const bool accumulate = accumulates<ops::LayerNormBackwardAttributes>(request);
  const auto made = request.attributes->as<ops::LayerNormBackwardAttributes>();
  return make_kernel([x = Rows(request.inputs[1]), made, accumulate](const KernelCall& call) {
    const auto [dx, dgamma, dbeta] = gradients_of(made, call);
    cpu::layer_norm_backward(x.rows, x.width, call.in(0), call.in(1), call.in(2), call.in(3), call.in(4), dx, dgamma, dbeta,
                             accumulate, call.scratch);
  });
}

}  // namespace

CpuKernels norm_cpu_kernels() {
  return {{&ops::kLayerNorm, nullptr, bind}, {&ops::kLayerNormBackward, choose_backward, bind_backward}};
}

}  // namespace plimsoll
