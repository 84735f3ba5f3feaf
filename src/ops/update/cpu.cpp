#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "graph/exchange.h"
#include "ops/kernel.h"
#include "ops/reduce/kernels.h"
#include "ops/update/kernels.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

KernelChoice choose_sum(const KernelRequest& request) { return own_kernel(cpu::sum_scratch(request.inputs[0].shape.elements())); }

// The number of elements in a call's range, or of all elements.
std::int64_t count_of(const KernelCall& call, std::int64_t all) { return call.range.whole() ? all : call.range.elements; }

std::unique_ptr<Kernel> bind_sum(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), type = request.inputs[0].dtype](const KernelCall& call) {
    double* sum = call.out<double>(0);
    *sum = cpu::sum_of_squares(count_of(call, n), {call.inputs[0], type}, call.range.first() ? 0 : *sum, call.scratch);
  });
}

// The sums of the same tiles, each by itself.
std::unique_ptr<Kernel> bind_tile_squares(const KernelRequest& request) {
  return make_kernel([n = request.inputs[0].shape.elements(), type = request.inputs[0].dtype](const KernelCall& call) {
    cpu::sums_of_squares(count_of(call, n), {call.inputs[0], type}, call.out<double>(0) + call.range.begin / ops::kNormTile);
  });
}

std::unique_ptr<Kernel> bind_clip(const KernelRequest& request) {
  return make_kernel([a = request.attributes->as<ops::ClipAttributes>()](const KernelCall& call) {
    const ops::ClipOperands at = ops::ClipOperands::of(a, call.inputs.size());
    const double inverse_scale = a.scaled ? call.in<double>(at.scalars())[ops::kInverseScale] : 1;
    double sum = 0;
    for (std::size_t i = 0; i < at.sums; ++i) sum += *call.in<double>(i);
    const double norm = std::sqrt(sum) * inverse_scale;
    *call.out<double>(at.norm) = norm;
    *call.out(at.coefficient) = static_cast<float>(cpu::clip_coefficient(norm, a.limit) * inverse_scale);
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

KernelChoice choose_update(const KernelRequest& request) {
  return own_kernel(cpu::change_scratch(request.inputs[ops::UpdateOperands::parameter()].shape.elements()));
}

// Positions and types of the operands of an update.
struct UpdateTypes {
  ops::UpdateOperands at;
  std::int64_t elements;
  DType parameter, state, gradient;

  UpdateTypes(const ops::UpdateOperands& operands, TypeSpan inputs)
      : at(operands),
        elements(inputs[at.parameter()].shape.elements()),
        parameter(inputs[at.parameter()].dtype),
        state(at.states() == 0 ? DType::f32 : inputs[at.state(0)].dtype),
        gradient(inputs[at.gradient()].dtype) {}
};

// The operands of a call of an update, by name.
template <class A>
struct UpdateCall {
  const KernelCall& call;
  UpdateTypes types;
  ops::UpdateOperands at;
  std::int64_t elements;  // of the call's range
  cpu::StateNumbers parameter;
  cpu::ConstElements gradient;
  const double* scalars;
  float scale;
  cpu::Average average;
  cpu::StochasticRounding rounding;
  cpu::Change* tiles;
  cpu::Change* change;

  UpdateCall(const A& a, const KernelCall& the_call, const UpdateTypes& the_types)
      : call(the_call),
        types(the_types),
        at(types.at),
        elements(count_of(call, types.elements)),
        parameter(call.outputs[at.parameter()], types.parameter),
        gradient(call.inputs[at.gradient()], types.gradient),
        scalars(call.in<double>(at.scalars())),
        scale(at.clipped() ? *call.in(at.coefficient()) : 1.0f),
        tiles(reinterpret_cast<cpu::Change*>(call.scratch)),
        change(call.out<cpu::Change>(at.change())) {
    if (call.range.first()) *change = {};
    if (at.averaged()) average = {call.out(at.average()), a.average_blend, first()};
    rounding = {a.rounding, static_cast<std::uint64_t>(scalars[ops::kUpdate]), a.first.value_or(0) + call.range.begin};
  }
  bool first() const { return scalars[ops::kUpdate] == 1; }
  bool none() const { return !std::isfinite(scale); }
  void report() const { *change = cpu::sum_of(tiles, elements, *change); }

  // The state with this number, from 0. Scales are whole even if the other operands are ranges.
  cpu::StateNumbers state(std::size_t number) const {
    if (types.state == DType::u8) {
      return {call.out<std::uint8_t>(at.state(number)), call.out(at.scales(number)) + call.range.begin / ops::kCodedBlock};
    }
    return {call.outputs[at.state(number)], types.state};
  }
};

// Calls body(attributes, operands) unless the clip coefficient is not finite.
template <class A, class Body>
std::unique_ptr<Kernel> bind_update(const KernelRequest& request, Body body) {
  const A& a = request.attributes->as<A>();
  return make_kernel([a, types = UpdateTypes(a.operands(), request.inputs), body](const KernelCall& call) {
    const UpdateCall<A> in(a, call, types);
    if (in.none()) return;
    body(a, in);
    in.report();
  });
}

std::unique_ptr<Kernel> bind_adamw(const KernelRequest& request) {
  return bind_update<ops::AdamWAttributes>(request, [](const auto& a, const auto& in) {
    const cpu::AdamWStep step{.lr = in.scalars[ops::kLearningRate],
                              .beta1 = in.scalars[ops::kMomentum],
                              .beta2 = a.beta2,
                              .epsilon = a.epsilon,
                              .weight_decay = a.weight_decay,
                              .bias_correction1 = in.scalars[ops::kBiasCorrection1],
                              .bias_correction2 = in.scalars[ops::kBiasCorrection2],
                              .gradient_scale = in.scale,
                              .clip_value = a.clip_value};
    cpu::adamw(in.elements, in.parameter, in.state(0), in.state(1), in.gradient, step, in.average, in.rounding, in.tiles);
  });
}

std::unique_ptr<Kernel> bind_lion(const KernelRequest& request) {
  return bind_update<ops::LionAttributes>(request, [](const auto& a, const auto& in) {
    const cpu::LionStep step{.lr = in.scalars[ops::kLearningRate],
                             .beta1 = in.scalars[ops::kMomentum],
                             .beta2 = a.beta2,
                             .weight_decay = a.weight_decay,
                             .gradient_scale = in.scale,
                             .clip_value = a.clip_value};
    cpu::lion(in.elements, in.parameter, in.state(0), in.gradient, step, in.average, in.rounding, in.tiles);
  });
}

std::unique_ptr<Kernel> bind_sgd(const KernelRequest& request) {
  return bind_update<ops::SgdAttributes>(request, [](const auto& a, const auto& in) {
    const cpu::SgdStep step{.lr = in.scalars[ops::kLearningRate],
                            .momentum = in.scalars[ops::kMomentum],
                            .weight_decay = a.weight_decay,
                            .nesterov = a.nesterov,
                            .first = in.first(),
                            .gradient_scale = in.scale,
                            .clip_value = a.clip_value};
    const cpu::StateNumbers buffer = a.momentum ? in.state(0) : cpu::StateNumbers(nullptr);
    cpu::sgd(in.elements, in.parameter, buffer, in.gradient, step, in.average, in.rounding, in.tiles);
  });
}

}  // namespace

CpuKernels update_cpu_kernels() {
  return {{&kTileSquares, nullptr, bind_tile_squares}, {&ops::kSumOfSquares, choose_sum, bind_sum},
          {&ops::kClip, nullptr, bind_clip},           {&ops::kReport, nullptr, bind_report},
          {&ops::kAdamW, choose_update, bind_adamw},   {&ops::kLion, choose_update, bind_lion},
          {&ops::kSgd, choose_update, bind_sgd}};
}

}  // namespace plimsoll
