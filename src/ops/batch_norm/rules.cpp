#include <fmt/core.h>

#include <array>
#include <cmath>

#include "ops/batch_norm/batch_norm.h"
#include "ops/families.h"
#include "ops/rules.h"
#include "ops/statistic/statistic.h"

namespace plimsoll::ops {
namespace {

// Positions of inputs.
constexpr std::size_t kX = 0, kGamma = 1, kBeta = 2;               // of both forward ops
constexpr std::size_t kFixedMean = 3, kFixedVariance = 4;          // of fixed_norm
constexpr std::size_t kNormResidual = 4, kFixedResidual = 5;       // of the forward ops, where there is one
constexpr std::size_t kBackwardInputs = 6, kBackwardResidual = 6;  // of both backward ops: those that all calls have
constexpr std::size_t kPooledMean = 2, kPooledVariance = 3, kPooledSums = 4, kWindows = 5;  // of pool_statistics

void require_epsilon(double epsilon, const char* where) {
  require(epsilon > 0 && std::isfinite(epsilon), where, fmt::format("epsilon is {}", epsilon), "above 0");
}

// All are fp32 or of one type of 16 bits, and of the shape of the first.
void require_wide_or(TypeSpan values, const char* where) {
  DType narrow = DType::f32;
  for (const ValueType& each : values) {
    require_computable(each, where);
    require(each.shape == values[0].shape, where, fmt::format("got {} and {}", to_text(values[0]), to_text(each)),
            "equal shapes");
    if (each.dtype == DType::f32) continue;
    require(narrow == DType::f32 || narrow == each.dtype, where, fmt::format("got {} and {}", name(narrow), name(each.dtype)),
            "fp32 and one type of 16 bits");
    narrow = each.dtype;
  }
}

// The type of gamma of x [batch, ..., C].
ValueType channels_of(const ValueType& x, const char* where) {
  const ValueType channels = row_of(x, where);
  require(x.shape.rank() >= 2 && x.shape.elements() > 0, where, "x is " + to_text(x), "(batch, channels), or more axes between");
  return channels;
}

std::int64_t groups_of(const Shape& x, std::int64_t group, const char* where) {
  require(group >= 1 && x[0] % group == 0, where, fmt::format("groups of {} samples and a batch of {}", group, x[0]),
          "a batch that is a multiple of the group");
  return x[0] / group;
}

ValueType statistics_of(const ValueType& x, std::int64_t group, const char* where) {
  return {DType::f32, {groups_of(x.shape, group, where), 2, x.shape.last()}};
}

ValueType sums_of(const ValueType& channels) { return {DType::f64, Shape{2 * channels.shape[0] + 1}}; }

void require_ids(const ValueType& ids, std::int64_t batch, const char* where) {
  require_type(ids, {DType::u32, {batch, 2}}, where, "sample_ids");
}

void require_each(TypeSpan values, const ValueType& expected, const char* where, std::string_view what) {
  for (const ValueType& each : values) require_type(each, expected, where, what);
}

// The type of y of a forward op, with the residual at `residual` if the attributes A have one.
template <class A>
ValueType result_of(const A& a, TypeSpan inputs, std::size_t residual, const char* where) {
  require_inputs(inputs, residual + std::size_t{a.residual}, where);
  require_epsilon(a.epsilon, where);
  require_computable(a.output, where, "the output");
  const ValueType channels = channels_of(inputs[kX], where);
  require_type(inputs[kGamma], channels, where, "gamma");
  require_type(inputs[kBeta], channels, where, "beta");
  const ValueType result{a.output, inputs[kX].shape};
  require_wide_or(std::array{inputs[kX], result, a.residual ? inputs[residual] : result}, where);
  return result;
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "batch_norm";
  const auto& a = any.as<BatchNormAttributes>();
  const ValueType result = result_of(a, inputs, kNormResidual, kWhere);
  require_ids(inputs[3], inputs[kX].shape[0], kWhere);
  return {result, statistics_of(inputs[kX], a.group, kWhere)};
}

std::vector<ValueType> infer_fixed(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "fixed_norm";
  const ValueType result = result_of(any.as<FixedNormAttributes>(), inputs, kFixedResidual, kWhere);
  require_each(inputs.subspan(kFixedMean, 2), channels_of(inputs[kX], kWhere), kWhere, "a statistic");
  return {result};
}

// The outputs of a backward op, after the checks of all inputs but those that differ: positions 2 to 5.
template <class A>
std::vector<ValueType> gradients_of(const A& a, TypeSpan inputs, const char* where) {
  const NormGradients& made = a.made;
  require(made.x || made.residual || made.gamma || made.beta, where, "no gradient is requested", "at least one");
  require(made.sums() > 0 || !made.accumulate, where, "it accumulates no gradient", "the gradient of gamma or beta");
  require(!a.residual || a.activation != NormActivation::none, where, "the residual is not needed", "an activation");
  const std::size_t wide = kBackwardInputs + std::size_t{a.residual};
  require_inputs(inputs, wide + (made.accumulate ? made.sums() : 0), where);
  require_epsilon(a.epsilon, where);
  require_computable(made.output, where, "the output");
  const ValueType &dy = inputs[0], &x = inputs[1], channels = channels_of(x, where), first{made.output, x.shape};
  require_wide_or(std::array{x, dy, first, a.residual ? inputs[kBackwardResidual] : x}, where);
  require_each(inputs.subspan(wide), channels, where, "an accumulator");
  std::vector<ValueType> outputs;
  if (made.x) outputs.push_back(first);
  if (made.residual) outputs.push_back(made.x ? ValueType{DType::f32, x.shape} : first);
  outputs.resize(outputs.size() + made.sums(), channels);
  return outputs;
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "batch_norm_backward";
  const auto& a = any.as<BatchNormBackwardAttributes>();
  std::vector<ValueType> outputs = gradients_of(a, inputs, kWhere);
  const ValueType& x = inputs[1];
  require_type(inputs[2], statistics_of(x, a.group, kWhere), kWhere, "the statistics");
  require_each(inputs.subspan(3, 2), channels_of(x, kWhere), kWhere, "gamma or beta");
  require_ids(inputs[5], x.shape[0], kWhere);
  return outputs;
}

std::vector<ValueType> infer_fixed_backward(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "fixed_norm_backward";
  std::vector<ValueType> outputs = gradients_of(any.as<FixedNormBackwardAttributes>(), inputs, kWhere);
  require_each(inputs.subspan(2, 4), channels_of(inputs[1], kWhere), kWhere, "a statistic, gamma or beta");
  return outputs;
}

// Emits the backward op `op` with the attributes `a` and the inputs that all calls have, and contributes its results.
template <class A>
void differentiate(GradientContext& context, const OpDef& op, A a, std::vector<ValueId> inputs, std::size_t residual) {
  GraphBuilder& builder = context.builder();
  NormGradients& made = a.made;
  made = {.x = context.wants(kX),
          .residual = a.residual && context.wants(residual),
          .gamma = context.wants(kGamma),
          .beta = context.wants(kBeta)};
  a.residual = a.residual && a.activation != NormActivation::none;
  if (a.residual) inputs.push_back(context.input(residual));
  std::vector<std::size_t> of;
  std::vector<std::string> names;
  std::vector<ValueId> into;
  const auto make = [&](bool wanted, std::size_t input, const char* name) {
    if (!wanted) return;
    of.push_back(input);
    names.emplace_back(name);
    if (input == kGamma || input == kBeta) into.push_back(context.accumulator(input));
  };
  make(made.x, kX, "grad");
  make(made.residual, residual, "residual.grad");
  make(made.gamma, kGamma, "weight.grad");
  make(made.beta, kBeta, "bias.grad");
  if (of.empty()) return;
  made.accumulate = serves_all(builder, into);
  if (made.accumulate) inputs.insert(inputs.end(), into.begin(), into.end());
  const auto outputs = builder.add(op, a, std::move(inputs), std::move(names));
  for (std::size_t i = 0; i < of.size(); ++i) context.contribute(of[i], outputs[i]);
}

void gradient(GradientContext& context) {
  const auto a = context.node().attributes.as<BatchNormAttributes>();
  differentiate(
      context, kBatchNormBackward, BatchNormBackwardAttributes{a.group, a.epsilon, a.activation, a.residual},
      {context.gradient(0), context.input(kX), context.output(1), context.input(kGamma), context.input(kBeta), context.input(3)},
      kNormResidual);
}

void gradient_of_fixed(GradientContext& context) {
  if (context.wants(kFixedMean) || context.wants(kFixedVariance)) {
    throw config_error("E-GRADIENT", context.node().line, "fixed_norm has no gradient for a mean or variance that is trained",
                       "statistics");
  }
  const auto a = context.node().attributes.as<FixedNormAttributes>();
  differentiate(context, kFixedNormBackward, FixedNormBackwardAttributes{a.epsilon, a.activation, a.residual},
                {context.gradient(0), context.input(kX), context.input(kFixedMean), context.input(kFixedVariance),
                 context.input(kGamma), context.input(kBeta)},
                kFixedResidual);
}

// y and gradients may take the bytes of inputs of their size: each is written after the last reading of its element.
template <class A, std::size_t kResidual>
std::vector<Alias> aliases_of_result(const Attributes& any) {
  std::vector<Alias> aliases{{kX, 0, AliasKind::may_overwrite}};
  if (any.as<A>().residual) aliases.push_back({kResidual, 0, AliasKind::may_overwrite});
  return aliases;
}

template <class A>
std::vector<Alias> aliases_of_backward(const Attributes& any) {
  const auto& a = any.as<A>();
  const NormGradients& made = a.made;
  std::vector<Alias> aliases;
  if (made.x) aliases.insert(aliases.end(), {{0, 0, AliasKind::may_overwrite}, {1, 0, AliasKind::may_overwrite}});
  if (made.residual) aliases.push_back({0, made.of_residual(), AliasKind::may_overwrite});
  if (a.residual && made.x) aliases.push_back({kBackwardResidual, 0, AliasKind::may_overwrite});
  if (a.residual && made.residual) aliases.push_back({kBackwardResidual, made.of_residual(), AliasKind::may_overwrite});
  if (!made.accumulate) return aliases;
  std::size_t into = kBackwardInputs + std::size_t{a.residual};
  if (made.gamma) aliases.push_back({into++, made.of_gamma(), AliasKind::accumulates});
  if (made.beta) aliases.push_back({into, made.of_beta(), AliasKind::accumulates});
  return aliases;
}

template <class A, std::size_t kResidual, std::size_t... kAlways>
std::vector<std::size_t> either_width(const Attributes& any) {
  std::vector<std::size_t> inputs{kAlways...};
  if (any.as<A>().residual) inputs.push_back(kResidual);
  return inputs;
}

template <class A>
Attributes with_gradient(const Attributes& any, DType to) {
  A a = any.as<A>();
  if (a.made.x || a.made.residual) a.made.output = to;
  return a;
}

double flops_of(NormActivation activation) {
  switch (activation) {
    case NormActivation::none: return 0;
    case NormActivation::relu: return 1;
    case NormActivation::relu6: return 2;
    case NormActivation::silu: break;
  }
  return 25;
}

// The gradient before the activation, for each element.
template <class A>
double flops_of_gradient(const A& a) {
  return (a.activation == NormActivation::none ? 0 : 3) + std::size_t{a.residual} + flops_of(a.activation);
}

double bytes_of(const ValueType& type) { return static_cast<double>(dense_bytes(type.shape, type.dtype)); }

// x is read twice: for the statistics (a sum and a sum of squares) and for y.
Cost cost(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const auto& a = any.as<BatchNormAttributes>();
  const double flops = 6 + std::size_t{a.residual} + flops_of(a.activation);
  return {flops * static_cast<double>(inputs[kX].shape.elements()), bytes_touched(inputs, outputs) + bytes_of(inputs[kX])};
}

Cost cost_of_fixed(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const auto& a = any.as<FixedNormAttributes>();
  const double flops = 3 + std::size_t{a.residual} + flops_of(a.activation);
  return {flops * static_cast<double>(inputs[kX].shape.elements()), bytes_touched(inputs, outputs)};
}

// dx needs the sums over its group, and then x and the gradient before the activation again: that of the residual if it is made,
// else it is computed again.
Cost cost_of_backward(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const auto& a = any.as<BatchNormBackwardAttributes>();
  const bool again = a.made.x && !a.made.residual;
  const double flops = flops_of_gradient(a) * (again ? 2 : 1) + 4 + (a.made.x ? 5 : 0);
  double bytes = bytes_touched(inputs, outputs);
  if (a.made.x) bytes += bytes_of(inputs[1]);
  if (a.made.x && a.made.residual) bytes += bytes_of(outputs[a.made.of_residual()]);
  if (again) bytes += bytes_of(inputs[0]);
  if (again && a.residual) bytes += bytes_of(inputs[kBackwardResidual]);
  return {flops * static_cast<double>(inputs[1].shape.elements()), bytes};
}

Cost cost_of_fixed_backward(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const auto& a = any.as<FixedNormBackwardAttributes>();
  const double flops = flops_of_gradient(a) + (a.made.sums() > 0 ? 4 : 0) + (a.made.x ? 1 : 0);
  return {flops * static_cast<double>(inputs[1].shape.elements()), bytes_touched(inputs, outputs)};
}

const ValueType kCount{DType::i64, Shape{1}};

std::vector<ValueType> infer_pool(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "pool_statistics";
  const auto& a = any.as<PoolingAttributes>();
  require(inputs.size() == 5 || inputs.size() == 6, kWhere, fmt::format("got {} inputs", inputs.size()), "5 or 6");
  if (inputs.size() > kWindows) require_type(inputs[kWindows], kCount, kWhere, "the number of windows");
  const Shape& statistics = inputs[0].shape;
  require(inputs[0].dtype == DType::f32 && statistics.rank() == 3 && statistics[1] == 2 && statistics.elements() > 0, kWhere,
          "the statistics are " + to_text(inputs[0]), "f32(groups, 2, channels)");
  require(a.group >= 1 && a.values >= 1, kWhere, fmt::format("groups of {} samples of {} values", a.group, a.values),
          "at least 1 each");
  require(a.momentum > 0 && a.momentum <= 1, kWhere, fmt::format("the momentum is {}", a.momentum), "above 0, at most 1");
  const ValueType channels{DType::f32, Shape{statistics[2]}};
  require_ids(inputs[1], statistics[0] * a.group, kWhere);
  require_each(inputs.subspan(kPooledMean, 2), channels, kWhere, "a running statistic");
  require_type(inputs[kPooledSums], sums_of(channels), kWhere, "the sums");
  return {inputs[kPooledSums]};
}

std::vector<ValueType> infer_moving(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "moving_statistics";
  any.as<PoolingAttributes>();
  require_guarded_inputs(inputs, 3, kWhere);
  const ValueType channels = row_of(inputs[0], kWhere);
  require_each(inputs.first(2), channels, kWhere, "a running statistic");
  require_type(inputs[2], sums_of(channels), kWhere, "the sums");
  return {inputs[0], inputs[1]};
}

std::vector<Alias> aliases_of_moving(const Attributes&) { return {{0, 0, AliasKind::updates}, {1, 1, AliasKind::updates}}; }

std::vector<ValueType> infer_count(const Attributes&, TypeSpan inputs) {
  constexpr const char* kWhere = "count_window";
  require_guarded_inputs(inputs, 2, kWhere);
  require_type(inputs[0], kCount, kWhere, "the number of windows");
  require(inputs[1].dtype == DType::f64 && inputs[1].shape.rank() == 1, kWhere, "the sums are " + to_text(inputs[1]),
          "f64(sums)");
  return {inputs[0]};
}

void move_at_update(const WindowEnd& end) {
  const std::vector<ValueId>& pooled = end.node.inputs;
  const auto move = [&](const OpDef& op, const Attributes& attributes, const std::vector<ValueId>& moved,
                        std::vector<std::string> names) {
    std::vector<ValueId> inputs = moved;
    inputs.push_back(pooled[kPooledSums]);
    if (end.coefficient.valid()) inputs.push_back(end.coefficient);
    const auto outputs = end.builder.add(op, attributes, std::move(inputs), std::move(names));
    for (std::size_t i = 0; i < moved.size(); ++i) end.builder.rename(outputs[i], end.builder.value(moved[i]).name);
  };
  move(kMovingStatistics, end.node.attributes, {pooled[kPooledMean], pooled[kPooledVariance]}, {"mean", "variance"});
  if (pooled.size() > kWindows) move(kCountWindow, NoAttributes{}, {pooled[kWindows]}, {"windows"});
}

}  // namespace

std::string attribute_text(NormActivation activation) {
  switch (activation) {
    case NormActivation::none: return "none";
    case NormActivation::relu: return "relu";
    case NormActivation::relu6: return "relu6";
    case NormActivation::silu: break;
  }
  return "silu";
}

const OpDef kBatchNorm{.name = "batch_norm",
                       .infer = infer,
                       .cost = cost,
                       .gradient = gradient,
                       .aliases = aliases_of_result<BatchNormAttributes, kNormResidual>,
                       .either = either_width<BatchNormAttributes, kNormResidual, kX>,
                       .rounded = with_output<BatchNormAttributes>};
const OpDef kBatchNormBackward{.name = "batch_norm_backward",
                               .infer = infer_backward,
                               .cost = cost_of_backward,
                               .not_differentiable = kFirstOrderOnly,
                               .aliases = aliases_of_backward<BatchNormBackwardAttributes>,
                               .either = either_width<BatchNormBackwardAttributes, kBackwardResidual, 0, 1>,
                               .rounded = with_gradient<BatchNormBackwardAttributes>};
const OpDef kPoolStatistics{.name = "pool_statistics",
                            .infer = infer_pool,
                            .cost = cost_per_element<3>,
                            .not_differentiable = "its result is a statistic, which has no gradient",
                            .at_update = move_at_update,
                            .aliases = accumulates_into<kPooledSums>,
                            .replayable = false};
const OpDef kMovingStatistics{.name = "moving_statistics",
                              .infer = infer_moving,
                              .cost = cost_per_element<10>,
                              .not_differentiable = kUpdateOnly,
                              .aliases = aliases_of_moving,
                              .replayable = false};
const OpDef kCountWindow{.name = "count_window",
                         .infer = infer_count,
                         .cost = cost_per_element<1>,
                         .not_differentiable = kUpdateOnly,
                         .aliases = updates<0>,
                         .replayable = false};
const OpDef kFixedNorm{.name = "fixed_norm",
                       .infer = infer_fixed,
                       .cost = cost_of_fixed,
                       .gradient = gradient_of_fixed,
                       .aliases = aliases_of_result<FixedNormAttributes, kFixedResidual>,
                       .either = either_width<FixedNormAttributes, kFixedResidual, kX>,
                       .rounded = with_output<FixedNormAttributes>};
const OpDef kFixedNormBackward{.name = "fixed_norm_backward",
                               .infer = infer_fixed_backward,
                               .cost = cost_of_fixed_backward,
                               .not_differentiable = kFirstOrderOnly,
                               .aliases = aliases_of_backward<FixedNormBackwardAttributes>,
                               .either = either_width<FixedNormBackwardAttributes, kBackwardResidual, 0, 1>,
                               .rounded = with_gradient<FixedNormBackwardAttributes>};

OpList batch_norm_ops() {
  return {{&kBatchNorm},   {&kBatchNormBackward}, {&kPoolStatistics},   {&kMovingStatistics},
          {&kCountWindow}, {&kFixedNorm},         {&kFixedNormBackward}};
}

namespace {

// The values of a sample for each channel.
std::int64_t values_of(const Shape& x) { return x.elements() / (x[0] * x.last()); }

// Running statistics follow those of each group from now on.
void follow_statistics(GraphBuilder& builder, ValueId statistics, ValueId sample_ids, const BatchNormLayer& layer,
                       const PoolingAttributes& attributes) {
  const std::string name = builder.value(layer.mean).name.text() + ".sums";
  const ValueId sums = builder.add_persistent(name, sums_of(builder.type(layer.mean)), Role::statistic);
  std::vector<ValueId> inputs{statistics, sample_ids, layer.mean, layer.variance, sums};
  if (layer.windows.valid()) inputs.push_back(layer.windows);
  builder.add1(kPoolStatistics, attributes, std::move(inputs), "pooled");
}

}  // namespace

ValueId batch_norm(GraphBuilder& builder, ValueId x, const BatchNormLayer& layer, ValueId sample_ids, ValueId residual,
                   NormActivation activation, std::int64_t group, std::string name) {
  std::vector<ValueId> inputs{x, layer.gamma, layer.beta, sample_ids};
  if (residual.valid()) inputs.push_back(residual);
  const std::string statistics = name.empty() ? "statistics" : name + ".statistics";
  const auto outputs = builder.add(kBatchNorm, BatchNormAttributes{group, layer.epsilon, activation, residual.valid()},
                                   std::move(inputs), {std::move(name), statistics});
  if (builder.section() == Section::micro) {
    follow_statistics(builder, outputs[1], sample_ids, layer, {group, values_of(builder.shape(x)), layer.momentum});
  }
  return outputs[0];
}

ValueId fixed_norm(GraphBuilder& builder, ValueId x, const BatchNormLayer& layer, ValueId residual, NormActivation activation,
                   std::string name) {
  std::vector<ValueId> inputs{x, layer.gamma, layer.beta, layer.mean, layer.variance};
  if (residual.valid()) inputs.push_back(residual);
  return builder.add1(kFixedNorm, FixedNormAttributes{layer.epsilon, activation, residual.valid()}, std::move(inputs),
                      std::move(name));
}

}  // namespace plimsoll::ops
