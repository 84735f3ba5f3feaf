#include <cmath>

#include "ops/kernel.h"
#include "ops/reduce/kernels.h"
#include "ops/update/kernels.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

KernelChoice choose_sum(const KernelRequest& request) { return own_kernel(cpu::sum_scratch(request.inputs[0].shape.elements())); }

// Of the flat operands of a call: the elements of its range, with which they begin, or all.
std::int64_t count_of(const KernelCall& call, std::int64_t all) { return call.range.whole() ? all : call.range.elements; }

std::unique_ptr<Kernel> bind_sum(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements()](const KernelCall& call) {
    double* sum = call.out<double>(0);
    *sum = cpu::sum_of_squares(count_of(call, n), call.in(0), call.range.first() ? 0 : *sum, call.scratch);
  });
}

std::unique_ptr<Kernel> bind_clip(const KernelRequest& request) {
  const double limit = request.attributes->as<ops::ClipAttributes>().limit;
  return make_kernel([limit](const KernelCall& call) {
    double sum = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) sum += *call.in<double>(i);
    const double norm = std::sqrt(sum);
    *call.out<double>(0) = norm;
    *call.out(1) = static_cast<float>(cpu::clip_coefficient(norm, limit));
  });
}

std::unique_ptr<Kernel> bind_adamw(const KernelRequest& request) {
  return make_kernel(
      [a = request.attributes->as<ops::AdamWAttributes>(), n = request.inputs[0].shape.elements()](const KernelCall& call) {
        const double* scalars = call.in<double>(4);
        const cpu::AdamWStep step{scalars[ops::kLearningRate],
                                  scalars[ops::kMomentum],
                                  a.beta2,
                                  a.epsilon,
                                  a.weight_decay,
                                  scalars[ops::kBiasCorrection1],
                                  scalars[ops::kBiasCorrection2],
                                  a.clipped ? *call.in(5) : 1.0f,
                                  a.clip_value};
        cpu::adamw(count_of(call, n), call.out(0), call.out(1), call.out(2), call.in(3), step);
      });
}

std::unique_ptr<Kernel> bind_lion(const KernelRequest& request) {
  return make_kernel(
      [a = request.attributes->as<ops::LionAttributes>(), n = request.inputs[0].shape.elements()](const KernelCall& call) {
        const double* scalars = call.in<double>(3);
        const cpu::LionStep step{.lr = scalars[ops::kLearningRate],
                                 .beta1 = scalars[ops::kMomentum],
                                 .beta2 = a.beta2,
                                 .weight_decay = a.weight_decay,
                                 .gradient_scale = a.clipped ? *call.in(4) : 1.0f,
                                 .clip_value = a.clip_value};
        cpu::lion(count_of(call, n), call.out(0), call.out(1), call.in(2), step);
      });
}

std::unique_ptr<Kernel> bind_sgd(const KernelRequest& request) {
  return make_kernel([a = request.attributes->as<ops::SgdAttributes>(),
                      n = request.inputs[0].shape.elements()](const KernelCall& call) {
    const std::size_t states = a.momentum ? 2 : 1;
    const double* scalars = call.in<double>(states + 1);
    const cpu::SgdStep step{scalars[ops::kLearningRate],     a.momentum ? scalars[ops::kMomentum] : 0, a.weight_decay, a.nesterov,
                            scalars[ops::kFirstUpdate] != 0, a.clipped ? *call.in(states + 2) : 1.0f,  a.clip_value};
    cpu::sgd(count_of(call, n), call.out(0), states == 2 ? call.out(1) : nullptr, call.in(states), step);
  });
}

}  // namespace

CpuKernels update_cpu_kernels() {
  return {{&ops::kSumOfSquares, choose_sum, bind_sum},
          {&ops::kClip, nullptr, bind_clip},
          {&ops::kAdamW, nullptr, bind_adamw},
          {&ops::kLion, nullptr, bind_lion},
          {&ops::kSgd, nullptr, bind_sgd}};
}

}  // namespace plimsoll
