#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

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
  const auto bind_from = [n = request.inputs[0].shape.elements()]<class T>(T) {
    return make_kernel([n](const KernelCall& call) {
      double* sum = call.out<double>(0);
      *sum = cpu::sum_of_squares(count_of(call, n), call.in<T>(0), call.range.first() ? 0 : *sum, call.scratch);
    });
  };
  return request.inputs[0].dtype == DType::bf16 ? bind_from(std::uint16_t{}) : bind_from(0.0F);
}

std::unique_ptr<Kernel> bind_clip(const KernelRequest& request) {
  return make_kernel([a = request.attributes->as<ops::ClipAttributes>()](const KernelCall& call) {
    const std::size_t sums = call.inputs.size() - (a.scaled ? 1 : 0);
    const double inverse_scale = a.scaled ? call.in<double>(sums)[ops::kInverseScale] : 1;
    double sum = 0;
    for (std::size_t i = 0; i < sums; ++i) sum += *call.in<double>(i);
    const double norm = std::sqrt(sum) * inverse_scale;
    *call.out<double>(0) = norm;
    *call.out(1) = static_cast<float>(cpu::clip_coefficient(norm, a.limit) * inverse_scale);
  });
}

std::unique_ptr<Kernel> bind_report(const KernelRequest& request) {
  std::vector<std::size_t> counts;
  for (const ValueType& input : request.inputs) counts.push_back(static_cast<std::size_t>(input.shape.elements()));
  return make_kernel([counts = std::move(counts)](const KernelCall& call) {
    double* out = call.out<double>(0);
    for (std::size_t i = 0; i < counts.size(); ++i) out = std::copy_n(call.in<double>(i), counts[i], out);
  });
}

// The state of this number, from 0. Scales are whole where the others are ranges.
cpu::StateNumbers state_of(const KernelCall& call, std::size_t state, DType dtype) {
  if (dtype == DType::u8) {
    return {call.out<std::uint8_t>(1 + 2 * state), call.out(2 + 2 * state) + call.range.begin / ops::kCodedBlock};
  }
  if (dtype == DType::bf16) return call.out<std::uint16_t>(1 + state);
  return call.out(1 + state);
}

cpu::StateNumbers parameter_of(const KernelCall& call, DType dtype) {
  if (dtype == DType::bf16) return call.out<std::uint16_t>(0);
  return call.out(0);
}

cpu::GradientNumbers gradient_of(const KernelCall& call, std::size_t input, DType dtype) {
  if (dtype == DType::bf16) return call.in<std::uint16_t>(input);
  return call.in(input);
}

KernelChoice choose_update(const KernelRequest& request) {
  return own_kernel(cpu::change_scratch(request.inputs[0].shape.elements()));
}

// What follows the parameter and its states, and what says how it changed.
template <class A>
struct UpdateInputs {
  cpu::GradientNumbers gradient;
  const double* scalars;
  float scale;
  cpu::Average average;
  cpu::StochasticRounding rounding;
  cpu::Change* tiles;
  cpu::Change* change;

  UpdateInputs(const A& a, const KernelCall& call, DType dtype)
      : gradient(gradient_of(call, a.changes(), dtype)),
        scalars(call.in<double>(a.changes() + 1)),
        scale(a.clipped ? *call.in(a.changes() + 2) : 1.0f),
        tiles(reinterpret_cast<cpu::Change*>(call.scratch)),
        change(call.out<cpu::Change>(a.changes())) {
    if (call.range.first()) *change = {};
    if (a.average_blend > 0) average = {call.out(a.changes() - 1), a.average_blend, first()};
    rounding = {a.rounding, static_cast<std::uint64_t>(scalars[ops::kUpdate]), call.range.begin};
  }
  bool first() const { return scalars[ops::kUpdate] == 1; }
  bool none() const { return !std::isfinite(scale); }
  void report(std::int64_t elements) const { *change = cpu::sum_of(tiles, elements, *change); }
};

std::unique_ptr<Kernel> bind_adamw(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::AdamWAttributes>();
  return make_kernel([a, n = request.inputs[0].shape.elements(), dtype = request.inputs[1].dtype,
                      parameter = request.inputs[0].dtype, gradient = request.inputs[a.changes()].dtype](const KernelCall& call) {
    const UpdateInputs in(a, call, gradient);
    if (in.none()) return;
    const cpu::AdamWStep step{.lr = in.scalars[ops::kLearningRate],
                              .beta1 = in.scalars[ops::kMomentum],
                              .beta2 = a.beta2,
                              .epsilon = a.epsilon,
                              .weight_decay = a.weight_decay,
                              .bias_correction1 = in.scalars[ops::kBiasCorrection1],
                              .bias_correction2 = in.scalars[ops::kBiasCorrection2],
                              .gradient_scale = in.scale,
                              .clip_value = a.clip_value};
    cpu::adamw(count_of(call, n), parameter_of(call, parameter), state_of(call, 0, dtype), state_of(call, 1, dtype), in.gradient,
               step, in.average, in.rounding, in.tiles);
    in.report(count_of(call, n));
  });
}

std::unique_ptr<Kernel> bind_lion(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::LionAttributes>();
  return make_kernel([a, n = request.inputs[0].shape.elements(), dtype = request.inputs[1].dtype,
                      parameter = request.inputs[0].dtype, gradient = request.inputs[a.changes()].dtype](const KernelCall& call) {
    const UpdateInputs in(a, call, gradient);
    if (in.none()) return;
    const cpu::LionStep step{.lr = in.scalars[ops::kLearningRate],
                             .beta1 = in.scalars[ops::kMomentum],
                             .beta2 = a.beta2,
                             .weight_decay = a.weight_decay,
                             .gradient_scale = in.scale,
                             .clip_value = a.clip_value};
    cpu::lion(count_of(call, n), parameter_of(call, parameter), state_of(call, 0, dtype), in.gradient, step, in.average,
              in.rounding, in.tiles);
    in.report(count_of(call, n));
  });
}

std::unique_ptr<Kernel> bind_sgd(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::SgdAttributes>();
  return make_kernel([a, n = request.inputs[0].shape.elements(), dtype = request.inputs[1].dtype,
                      parameter = request.inputs[0].dtype, gradient = request.inputs[a.changes()].dtype](const KernelCall& call) {
    const UpdateInputs in(a, call, gradient);
    if (in.none()) return;
    const cpu::SgdStep step{.lr = in.scalars[ops::kLearningRate],
                            .momentum = in.scalars[ops::kMomentum],
                            .weight_decay = a.weight_decay,
                            .nesterov = a.nesterov,
                            .first = in.first(),
                            .gradient_scale = in.scale,
                            .clip_value = a.clip_value};
    const cpu::StateNumbers buffer = a.momentum ? state_of(call, 0, dtype) : cpu::StateNumbers(nullptr);
    cpu::sgd(count_of(call, n), parameter_of(call, parameter), buffer, in.gradient, step, in.average, in.rounding, in.tiles);
    in.report(count_of(call, n));
  });
}

}  // namespace

CpuKernels update_cpu_kernels() {
  return {{&ops::kSumOfSquares, choose_sum, bind_sum}, {&ops::kClip, nullptr, bind_clip},
          {&ops::kReport, nullptr, bind_report},       {&ops::kAdamW, choose_update, bind_adamw},
          {&ops::kLion, choose_update, bind_lion},     {&ops::kSgd, choose_update, bind_sgd}};
}

}  // namespace plimsoll
