#include <cmath>

#include "ops/factored/factored.h"
#include "ops/factored/kernels.h"
#include "ops/kernel.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

// The operands of a call of any of the three ops; `first` is the number of its first state.
struct Operands {
  ops::FactoredAttributes a;
  cpu::FactoredShape shape;
  std::size_t first;
  bool narrow = false;  // the gradient is bf16

  Operands(const KernelRequest& request, std::size_t first_state)
      : a(request.attributes->as<ops::FactoredAttributes>()), first(first_state) {
    const Shape& whole = request.inputs[first + a.states()].shape;
    narrow = request.inputs[first + a.states()].dtype == DType::bf16;
    shape =
        a.factored ? cpu::FactoredShape{ops::rows_of(whole), whole.last(), true} : cpu::FactoredShape{1, whole.elements(), false};
  }

  std::size_t behind() const { return first + a.states() + 1; }  // the gradient
  // An input or output of a call.
  static cpu::StateNumbers parameter(std::byte* numbers, DType dtype) {
    if (dtype == DType::bf16) return reinterpret_cast<std::uint16_t*>(numbers);
    return reinterpret_cast<float*>(numbers);
  }
  cpu::FactoredRange range(const KernelCall& call) const {
    return call.range.whole() ? cpu::FactoredRange{0, shape.elements()}
                              : cpu::FactoredRange{call.range.begin, call.range.elements};
  }
  cpu::Variance variance(const KernelCall& call) const {
    const auto state = [&](std::size_t i) { return reinterpret_cast<float*>(call.inputs[first + i]); };
    return a.factored ? cpu::Variance{state(0), state(1)} : cpu::Variance{nullptr, state(0)};
  }
  // `scale`: of the clip coefficient at this input.
  cpu::FactoredGradient gradient(const KernelCall& call, float scale) const {
    const cpu::GradientNumbers numbers =
        narrow ? cpu::GradientNumbers(call.in<std::uint16_t>(behind() - 1)) : cpu::GradientNumbers(call.in(behind() - 1));
    return {numbers, scale, static_cast<float>(a.clip_value)};
  }
  float scale(const KernelCall& call, std::size_t coefficient) const { return a.clipped ? *call.in(coefficient) : 1.0F; }
};

KernelChoice choose_variance(const KernelRequest& request) {
  return own_kernel(cpu::update_variance_scratch(Operands(request, 0).shape));
}

// Where the coefficient is no number, nothing changes.
std::unique_ptr<Kernel> bind_variance(const KernelRequest& request) {
  return make_kernel([o = Operands(request, 0)](const KernelCall& call) {
    const float scale = o.scale(call, o.behind() + 1);
    if (!std::isfinite(scale)) return;
    const double update = call.in<double>(o.behind())[ops::kUpdate];
    cpu::update_variance(o.shape, o.range(call), o.variance(call), o.gradient(call, scale), std::pow(update, -0.8), call.scratch);
  });
}

KernelChoice choose_size(const KernelRequest& request) {
  return own_kernel(cpu::update_size_scratch(Operands(request, 1).shape));
}

std::unique_ptr<Kernel> bind_size(const KernelRequest& request) {
  return make_kernel([o = Operands(request, 1), dtype = request.inputs[0].dtype](const KernelCall& call) {
    cpu::Sizes* sizes = call.out<cpu::Sizes>(0);
    const cpu::FactoredGradient gradient = o.gradient(call, o.scale(call, o.behind()));
    const cpu::Sizes before = call.range.first() ? cpu::Sizes{} : *sizes;
    *sizes = cpu::update_size(o.shape, o.range(call), Operands::parameter(call.inputs[0], dtype), o.variance(call), gradient,
                              before, call.scratch);
  });
}

std::unique_ptr<Kernel> bind_update(const KernelRequest& request) {
  const std::size_t changes = request.attributes->as<ops::FactoredAttributes>().changes();
  return make_kernel([o = Operands(request, changes), changes, dtype = request.inputs[0].dtype](const KernelCall& call) {
    const std::size_t behind = o.behind();
    const float scale = o.scale(call, behind + 2);
    cpu::Change* change = call.out<cpu::Change>(changes);
    if (call.range.first()) *change = {};
    if (!std::isfinite(scale)) return;
    const double* scalars = call.in<double>(behind + 1);
    const auto update = static_cast<std::int64_t>(scalars[ops::kUpdate]);
    const cpu::AdafactorStep step{.lr = scalars[ops::kLearningRate],
                                  .weight_decay = o.a.weight_decay,
                                  .update = update,
                                  .sizes = *call.in<cpu::Sizes>(behind),
                                  .average_blend = o.a.average_blend,
                                  .first = update == 1};
    *change =
        cpu::adafactor(o.shape, o.range(call), Operands::parameter(call.outputs[0], dtype), changes == 2 ? call.out(1) : nullptr,
                       o.variance(call), o.gradient(call, scale), step, {o.a.rounding, static_cast<std::uint64_t>(update), 0});
  });
}

}  // namespace

CpuKernels factored_cpu_kernels() {
  return {{&ops::kUpdateVariance, choose_variance, bind_variance},
          {&ops::kUpdateSize, choose_size, bind_size},
          {&ops::kAdafactor, nullptr, bind_update}};
}

}  // namespace plimsoll
