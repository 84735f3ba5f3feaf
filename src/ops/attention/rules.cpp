#include <fmt/format.h>

#include "base/philox.h"
#include "graph/gradient.h"
#include "ops/attention/attention.h"
#include "ops/check.h"

namespace plimsoll::ops {
namespace {

void check(const AttentionAttributes& attributes, TypeSpan inputs) {
  const Shape& qkv = inputs[0].shape;
  require_dtype(inputs.first(1), DType::f32, "attention");
  require(attributes.heads > 0 && qkv.rank() == 3 && qkv.last() % (3 * attributes.heads) == 0, "attention",
          fmt::format("qkv is {} for {} heads", to_text(qkv), attributes.heads),
          "pass (batch, tokens, 3 * width) with the width a multiple of the heads");
  require_type(inputs[1], {DType::u32, Shape{qkv[0], 2}}, "attention", "sample_ids");
}

std::vector<ValueType> outputs_of(const AttentionAttributes& attributes, const Shape& qkv) {
  return {{DType::f32, {qkv[0], qkv[1], qkv[2] / 3}}, {DType::f32, {qkv[0], attributes.heads, qkv[1]}}};
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<AttentionAttributes>();
  require_inputs(inputs, 2, "attention");
  check(attributes, inputs);
  return outputs_of(attributes, inputs[0].shape);
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 5, "attention_backward");
  const auto& attributes = any.as<AttentionAttributes>();
  check(attributes, inputs);
  const std::vector<ValueType> outputs = outputs_of(attributes, inputs[0].shape);
  require_type(inputs[2], outputs[0], "attention_backward", "the output");
  require_type(inputs[3], outputs[1], "attention_backward", "the log-sum-exp");
  require_type(inputs[4], outputs[0], "attention_backward", "the output's gradient");
  return {inputs[0]};
}

// Operations of the unmasked half: `products` matrix products of T x T x head_size per head.
template <int kProducts>
Cost cost(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  const Shape& qkv = inputs[0].shape;
  const double tokens = static_cast<double>(qkv[1]), width = static_cast<double>(qkv[2]) / 3;
  return {kProducts * static_cast<double>(qkv[0]) * tokens * (tokens + 1) * width, bytes_touched(inputs, outputs)};
}

void gradient(GradientContext& context) {
  if (!context.wants(0)) return;
  const Node& node = context.node();
  const auto outputs = context.builder().add_random(
      kAttentionBackward, node.attributes,
      {context.input(0), context.input(1), context.output(0), context.output(1), context.gradient(0)}, {"grad"}, node.site);
  context.contribute(0, outputs[0]);
}

}  // namespace

const OpDef kAttention{
    .name = "attention", .infer = infer, .cost = cost<2>, .gradient = gradient, .costly = true, .random = true};
const OpDef kAttentionBackward{.name = "attention_backward",
                               .infer = infer_backward,
                               .cost = cost<5>,
                               .not_differentiable = kFirstOrderOnly,
                               .costly = true,
                               .random = true};

ValueId attention(GraphBuilder& builder, ValueId qkv, ValueId sample_ids, std::int64_t heads, double dropout,
                  std::uint64_t seed) {
  const std::uint64_t site = random_site(builder.full_name("attended"));
  const AttentionAttributes attributes{heads, dropout, dropout > 0 ? philox_key(seed, site) : NoiseKey{}};
  return builder.add_random(kAttention, attributes, {qkv, sample_ids}, {"attended", "lse"}, site).front();
}

}  // namespace plimsoll::ops
