#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "base/philox.h"
#include "graph/gradient.h"
#include "ops/check.h"
#include "ops/families.h"
#include "ops/grouped_attention/grouped_attention.h"

namespace plimsoll::ops {
namespace {

void require_number(DType dtype, std::string_view where, std::string_view what) {
  require(is_float(dtype) && dtype != DType::f64, where, fmt::format("{} is {}", what, name(dtype)), "fp32, bf16 or fp16");
}

void check(const GroupedAttentionAttributes& a, TypeSpan inputs, std::string_view where) {
  const Shape& q = inputs[0].shape;
  require(a.heads > 0 && a.kv_heads > 0 && a.heads % a.kv_heads == 0, where,
          fmt::format("{} heads of queries read {} of keys and values", a.heads, a.kv_heads),
          "a number of heads that is a multiple of that of keys and values");
  require(q.rank() == 3 && q.last() % a.heads == 0, where, fmt::format("the queries are {} for {} heads", to_text(q), a.heads),
          "pass (batch, tokens, heads * head_size)");
  require(a.window >= 0 && a.scale >= 0, where, fmt::format("the window is {}, the scale {}", a.window, a.scale),
          "neither is negative");
  constexpr const char* kNames[] = {"the queries", "the keys", "the values"};
  for (const std::size_t i : {0, 1, 2}) {
    require_number(inputs[i].dtype, where, kNames[i]);
    if (i == 0) continue;
    require_type(inputs[i], {inputs[i].dtype, {q[0], q[1], q[2] / a.heads * a.kv_heads}}, where, kNames[i]);
  }
  require_sample_ids(inputs[3], q, where);
  if (a.segments) require_type(inputs.back(), {DType::i32, {q[0], q[1]}}, where, "segments");
  require_number(a.output, where, "what it makes");
}

ValueType log_sums(const GroupedAttentionAttributes& a, const Shape& q) { return {DType::f32, {q[0], a.heads, q[1]}}; }

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<GroupedAttentionAttributes>();
  require_inputs(inputs, a.segments ? 5 : 4, "grouped_attention");
  check(a, inputs, "grouped_attention");
  const Shape& q = inputs[0].shape;
  return {{a.output, q}, log_sums(a, q)};
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "grouped_attention_backward";
  const auto& made = any.as<GroupedAttentionBackwardAttributes>();
  const GroupedAttentionAttributes& a = made.forward;
  require(made.q || made.k || made.v, kWhere, "it makes no gradient", "one of them");
  require_inputs(inputs, a.segments ? 8 : 7, kWhere);
  check(a, inputs, kWhere);
  const Shape& q = inputs[0].shape;
  for (const std::size_t i : {4, 6}) {
    const char* what = i == 4 ? "the output" : "the output's gradient";
    require_number(inputs[i].dtype, kWhere, what);
    require_type(inputs[i], {inputs[i].dtype, q}, kWhere, what);
  }
  require_type(inputs[5], log_sums(a, q), kWhere, "the log-sum-exp");
  std::vector<ValueType> outputs;
  for (const std::size_t i : {0, 1, 2}) {
    if (made.makes(i)) outputs.push_back({a.output, inputs[i].shape});
  }
  return outputs;
}

// Operations of what is not masked by order or window: so many matrix products of queries x keys x head_size per head.
Cost cost_of(int products, std::int64_t window, TypeSpan inputs, TypeSpan outputs) {
  const Shape& q = inputs[0].shape;
  const double tokens = static_cast<double>(q[1]), seen = window == 0 ? tokens : std::min(tokens, static_cast<double>(window));
  const double pairs = seen * (seen + 1) / 2 + (tokens - seen) * seen;
  return {2 * products * static_cast<double>(q[0] * q[2]) * pairs, bytes_touched(inputs, outputs)};
}

Cost cost(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  return cost_of(2, any.as<GroupedAttentionAttributes>().window, inputs, outputs);
}

Cost cost_of_backward(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const int products = 2 + static_cast<int>(outputs.size());
  return cost_of(products, any.as<GroupedAttentionBackwardAttributes>().forward.window, inputs, outputs);
}

void gradient(GradientContext& context) {
  const Node& node = context.node();
  const auto& forward = node.attributes.as<GroupedAttentionAttributes>();
  const GroupedAttentionBackwardAttributes made{forward, context.wants(0), context.wants(1), context.wants(2)};
  constexpr const char* kNames[] = {"q.grad", "k.grad", "v.grad"};
  std::vector<std::string> names;
  for (const std::size_t i : {0, 1, 2}) {
    if (made.makes(i)) names.emplace_back(kNames[i]);
  }
  if (names.empty()) return;
  std::vector<ValueId> inputs{context.input(0),  context.input(1),  context.input(2),   context.input(3),
                              context.output(0), context.output(1), context.gradient(0)};
  if (forward.segments) inputs.push_back(context.input(4));
  const auto outputs =
      context.builder().add_random(kGroupedAttentionBackward, made, std::move(inputs), std::move(names), node.site);
  auto output = outputs.begin();
  for (const std::size_t i : {0, 1, 2}) {
    if (made.makes(i)) context.contribute(i, *output++);
  }
}

std::vector<std::size_t> either(const Attributes&) { return {0, 1, 2}; }
std::vector<std::size_t> either_of_backward(const Attributes&) { return {0, 1, 2, 4, 6}; }

Attributes rounded(const Attributes& any, DType to) {
  GroupedAttentionAttributes attributes = any.as<GroupedAttentionAttributes>();
  attributes.output = to;
  return attributes;
}

Attributes rounded_backward(const Attributes& any, DType to) {
  GroupedAttentionBackwardAttributes attributes = any.as<GroupedAttentionBackwardAttributes>();
  attributes.forward.output = to;
  return attributes;
}

}  // namespace

const OpDef kGroupedAttention{.name = "grouped_attention",
                              .infer = infer,
                              .cost = cost,
                              .gradient = gradient,
                              .either = either,
                              .rounded = rounded,
                              .costly = true,
                              .random = true};
const OpDef kGroupedAttentionBackward{.name = "grouped_attention_backward",
                                      .infer = infer_backward,
                                      .cost = cost_of_backward,
                                      .not_differentiable = kFirstOrderOnly,
                                      .either = either_of_backward,
                                      .rounded = rounded_backward,
                                      .rounds = 3,
                                      .costly = true,
                                      .random = true};

OpList grouped_attention_ops() { return {{&kGroupedAttention}, {&kGroupedAttentionBackward}}; }

ValueId grouped_attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId sample_ids, ValueId segments,
                          GroupedAttentionAttributes attributes, std::uint64_t seed) {
  const std::uint64_t site = random_site(builder.full_name("attended"));
  attributes.key = attributes.dropout > 0 ? philox_key(seed, site) : NoiseKey{};
  attributes.segments = segments.valid();
  std::vector<ValueId> inputs{q, k, v, sample_ids};
  if (segments.valid()) inputs.push_back(segments);
  return builder.add_random(kGroupedAttention, attributes, std::move(inputs), {"attended", "lse"}, site).front();
}

}  // namespace plimsoll::ops
