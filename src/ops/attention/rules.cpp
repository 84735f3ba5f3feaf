#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/philox.h"
#include "ops/attention/attention.h"
#include "ops/attention/cuda.h"
#include "ops/families.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr std::string_view kForward = "attention", kBackward = "attention_backward";

// `more`: number of inputs after the operands, without segments.
void check(const AttentionAttributes& a, std::size_t more, TypeSpan inputs, std::string_view where) {
  a.layout.require(inputs, more + std::size_t{a.segments}, where);
  require(a.window >= 0 && a.scale >= 0, where, fmt::format("the window is {}, the scale {}", a.window, a.scale),
          "neither is negative");
  for (const ValueType& operand : inputs.first(a.layout.operands())) require_computable(operand.dtype, where, "an operand");
  const Shape& first = inputs[0].shape;
  require_sample_ids(inputs[a.layout.operands()], first, where);
  require(a.causal || (a.window == 0 && !a.segments && !name_tokens(inputs[a.layout.operands()].shape)), where,
          "attention to later tokens has a window or segments", "neither, and sample_ids of rows");
  if (a.segments) require_type(inputs.back(), {DType::i32, {first[0], first[1]}}, where, "segments");
  require_computable(a.output, where, "the result");
}

ValueType log_sums(const AttentionAttributes& a, const Shape& first) {
  return {DType::f32, {first[0], a.layout.heads, first[1]}};
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<AttentionAttributes>();
  check(a, 1, inputs, kForward);
  return {{a.output, a.layout.queries(inputs[0].shape)}, log_sums(a, inputs[0].shape)};
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  const auto& made = any.as<AttentionBackwardAttributes>();
  const AttentionAttributes& a = made.forward;
  const bool all = made.q && made.k && made.v, some = made.q || made.k || made.v;
  require(a.layout.separate ? some : all, kBackward, "gradients are missing", "one of them, or all of a packed operand");
  check(a, 4, inputs, kBackward);
  const std::size_t out = a.layout.operands() + 1;
  const Shape& first = inputs[0].shape;
  for (const std::size_t i : {out, out + 2}) {
    const char* what = i == out ? "the output" : "the output's gradient";
    require_computable(inputs[i].dtype, kBackward, what);
    require_type(inputs[i], {inputs[i].dtype, a.layout.queries(first)}, kBackward, what);
  }
  require_type(inputs[out + 1], log_sums(a, first), kBackward, "the log-sum-exp");
  std::vector<ValueType> outputs;
  for (std::size_t i = 0; i < a.layout.operands(); ++i) {
    if (made.makes(i)) outputs.push_back({a.output, inputs[i].shape});
  }
  return outputs;
}

// The cost of `products` matrix products of queries x keys x d per head, for the pairs that see each other.
Cost cost_of(int products, const AttentionAttributes& a, TypeSpan inputs, TypeSpan outputs) {
  const Shape q = a.layout.queries(inputs[0].shape);
  const double tokens = static_cast<double>(q[1]);
  if (!a.causal) return {2 * products * static_cast<double>(q[0] * q[2]) * tokens * tokens, bytes_touched(inputs, outputs)};
  const double seen = a.window == 0 ? tokens : std::min(tokens, static_cast<double>(a.window));
  const double pairs = seen * (seen + 1) / 2 + (tokens - seen) * seen;
  return {2 * products * static_cast<double>(q[0] * q[2]) * pairs, bytes_touched(inputs, outputs)};
}

Cost cost(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  return cost_of(2, any.as<AttentionAttributes>(), inputs, outputs);
}

Cost cost_of_backward(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const auto& made = any.as<AttentionBackwardAttributes>();
  return cost_of(2 + made.q + made.k + made.v, made.forward, inputs, outputs);
}

void gradient(GradientContext& context) {
  const Node& node = context.node();
  const auto& forward = node.attributes.as<AttentionAttributes>();
  const std::size_t operands = forward.layout.operands();
  AttentionBackwardAttributes made{forward};
  std::vector<std::string> names;
  if (forward.layout.separate) made = {forward, context.wants(0), context.wants(1), context.wants(2)};
  for (std::size_t i = 0; i < operands; ++i) {
    constexpr const char* kNames[] = {"q.grad", "k.grad", "v.grad"};
    if (context.wants(i)) names.emplace_back(forward.layout.separate ? kNames[i] : "grad");
  }
  if (names.empty()) return;
  std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.end());
  const auto saved = {context.output(0), context.output(1), context.gradient(0)};
  inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(operands) + 1, saved);
  const auto outputs = context.builder().add_random(kAttentionBackward, made, std::move(inputs), std::move(names), node.site);
  auto output = outputs.begin();
  for (std::size_t i = 0; i < operands; ++i) {
    if (made.makes(i)) context.contribute(i, *output++);
  }
}

std::vector<std::size_t> either(const Attributes& any) {
  if (any.as<AttentionAttributes>().layout.separate) return {0, 1, 2};
  return {0};
}
std::vector<std::size_t> either_of_backward(const Attributes& any) {
  if (any.as<AttentionBackwardAttributes>().forward.layout.separate) return {0, 1, 2, 4, 6};
  return {0, 2, 4};
}

Attributes rounded_backward(const Attributes& any, DType to) {
  AttentionBackwardAttributes attributes = any.as<AttentionBackwardAttributes>();
  attributes.forward.output = to;
  return attributes;
}

constexpr const char* kCausalAlone = "attention to earlier tokens alone, as in language models";

void require_causal(const KernelRequest& request) {
  require_on_gpu(request.attributes->as<AttentionAttributes>().causal, request, "attention to later tokens", kCausalAlone);
}
void require_causal_backward(const KernelRequest& request) {
  require_on_gpu(request.attributes->as<AttentionBackwardAttributes>().forward.causal, request, "attention to later tokens",
                 kCausalAlone);
}

}  // namespace

const OpDef kAttention{.name = kForward,
                       .infer = infer,
                       .cost = cost,
                       .gradient = gradient,
                       .either = either,
                       .rounded = with_output<AttentionAttributes>,
                       .costly = true,
                       .random = true};
const OpDef kAttentionBackward{.name = kBackward,
                               .infer = infer_backward,
                               .cost = cost_of_backward,
                               .not_differentiable = kFirstOrderOnly,
                               .either = either_of_backward,
                               .rounded = rounded_backward,
                               .rounds = 3,
                               .costly = true,
                               .random = true};

OpList attention_ops() {
  return {{&kAttention, {.require = require_causal}},
          {&kAttentionBackward, {.require = require_causal_backward, .scratch = cuda_attention_backward_scratch}}};
}

void QkvLayout::require(TypeSpan inputs, std::size_t more, std::string_view where) const {
  require_inputs(inputs, operands() + more, where);
  ops::require(heads > 0 && kv_heads > 0 && heads % kv_heads == 0, where,
               fmt::format("{} heads of queries read {} of keys and values", heads, kv_heads),
               "a number of heads that is a multiple of that of keys and values");
  const Shape& first = inputs[0].shape;
  const std::int64_t of_row = separate ? heads : heads + 2 * kv_heads;
  ops::require(first.rank() == 3 && first.last() % of_row == 0, where,
               fmt::format("{} is {} for {} heads", separate ? "q" : "qkv", to_text(first), of_row),
               "pass (batch, tokens, heads * head_size)");
  for (std::size_t i = 1; i < operands(); ++i) {
    require_type(inputs[i], {inputs[i].dtype, keys(first)}, where, i == 1 ? "the keys" : "the values");
  }
}

ValueId attention(GraphBuilder& builder, std::vector<ValueId> qkv, ValueId sample_ids, ValueId segments,
                  AttentionAttributes attributes, std::uint64_t seed) {
  const std::uint64_t site = random_site(builder.full_name("attended"));
  attributes.key = attributes.dropout > 0 ? philox_key(seed, site) : NoiseKey{};
  attributes.segments = segments.valid();
  qkv.push_back(sample_ids);
  if (segments.valid()) qkv.push_back(segments);
  return builder.add_random(kAttention, attributes, std::move(qkv), {"attended", "lse"}, site).front();
}

}  // namespace plimsoll::ops
