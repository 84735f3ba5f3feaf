#include <cmath>
#include <span>

#include "ops/factored/factored.h"
#include "ops/factored/kernels.h"
#include "ops/kernel.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

using At = ops::FactoredOperands;

// The operands of a call of any of the three ops, by name.
struct Operands {
  ops::FactoredAttributes a;
  At at;
  cpu::FactoredShape shape;
  DType gradient_type, parameter_type = DType::f32;

  Operands(const KernelRequest& request, At (*where)(const ops::FactoredAttributes&))
      : a(request.attributes->as<ops::FactoredAttributes>()), at(where(a)) {
    const ValueType& gradient = request.inputs[at.gradient];
    const Shape& whole = gradient.shape;
    shape =
        a.factored ? cpu::FactoredShape{ops::rows_of(whole), whole.last(), true} : cpu::FactoredShape{1, whole.elements(), false};
    gradient_type = gradient.dtype;
    if (at.parameter != At::kAbsent) parameter_type = request.inputs[at.parameter].dtype;
  }

  // Inputs or, for an op that changes them, outputs: an operand has the same number in both.
  cpu::Elements parameter(std::span<std::byte* const> operands) const { return {operands[at.parameter], parameter_type}; }
  float* average(const KernelCall& call) const { return at.average == At::kAbsent ? nullptr : call.out(at.average); }
  cpu::FactoredRange range(const KernelCall& call) const {
    return call.range.whole() ? cpu::FactoredRange{0, shape.elements()}
                              : cpu::FactoredRange{call.range.begin, call.range.elements};
  }
  cpu::Variance variance(const KernelCall& call) const {
    const auto state = [&](std::size_t number) { return reinterpret_cast<float*>(call.inputs[at.state(number)]); };
    return a.factored ? cpu::Variance{state(0), state(1)} : cpu::Variance{nullptr, state(0)};
  }
  cpu::FactoredGradient gradient(const KernelCall& call) const {
    return {{call.inputs[at.gradient], gradient_type}, scale(call), static_cast<float>(a.clip_value)};
  }
  float scale(const KernelCall& call) const { return at.coefficient == At::kAbsent ? 1.0F : *call.in(at.coefficient); }
  double scalar(const KernelCall& call, ops::UpdateScalar scalar) const { return call.in<double>(at.scalars)[scalar]; }
};

KernelChoice choose_variance(const KernelRequest& request) {
  return own_kernel(cpu::update_variance_scratch(Operands(request, At::of_variance).shape));
}

// With a coefficient that is not finite the op changes nothing.
std::unique_ptr<Kernel> bind_variance(const KernelRequest& request) {
  return make_kernel([o = Operands(request, At::of_variance)](const KernelCall& call) {
    if (!std::isfinite(o.scale(call))) return;
    const double update = o.scalar(call, ops::kUpdate);
    cpu::update_variance(o.shape, o.range(call), o.variance(call), o.gradient(call), std::pow(update, -0.8), call.scratch);
  });
}

KernelChoice choose_size(const KernelRequest& request) {
  return own_kernel(cpu::update_size_scratch(Operands(request, At::of_size).shape));
}

std::unique_ptr<Kernel> bind_size(const KernelRequest& request) {
  return make_kernel([o = Operands(request, At::of_size)](const KernelCall& call) {
    cpu::Sizes* sizes = call.out<cpu::Sizes>(At::sizes_made());
    const cpu::Sizes before = call.range.first() ? cpu::Sizes{} : *sizes;
    *sizes = cpu::update_size(o.shape, o.range(call), o.parameter(call.inputs), o.variance(call), o.gradient(call), before,
                              call.scratch);
  });
}

std::unique_ptr<Kernel> bind_update(const KernelRequest& request) {
  return make_kernel([o = Operands(request, At::of_update)](const KernelCall& call) {
    cpu::Change* change = call.out<cpu::Change>(o.at.change());
    if (call.range.first()) *change = {};
    if (!std::isfinite(o.scale(call))) return;
    const auto update = static_cast<std::int64_t>(o.scalar(call, ops::kUpdate));
    const cpu::AdafactorStep step{.lr = o.scalar(call, ops::kLearningRate),
                                  .weight_decay = o.a.weight_decay,
                                  .update = update,
                                  .sizes = *call.in<cpu::Sizes>(o.at.sizes),
                                  .average_blend = o.a.average_blend,
                                  .first = update == 1};
    *change = cpu::adafactor(o.shape, o.range(call), o.parameter(call.outputs), o.average(call), o.variance(call),
                             o.gradient(call), step, {o.a.rounding, static_cast<std::uint64_t>(update), 0});
  });
}

}  // namespace

CpuKernels factored_cpu_kernels() {
  return {{&ops::kUpdateVariance, choose_variance, bind_variance},
          {&ops::kUpdateSize, choose_size, bind_size},
          {&ops::kAdafactor, nullptr, bind_update}};
}

}  // namespace plimsoll
