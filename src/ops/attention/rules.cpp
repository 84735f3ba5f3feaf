#include <fmt/core.h>

#include <string_view>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "graph/gradient.h"
#include "ops/attention/attention.h"
#include "ops/attention/cuda.h"
#include "ops/check.h"
#include "ops/families.h"

namespace plimsoll::ops {
namespace {

void require_number(DType dtype, std::string_view where, std::string_view what) {
  require(is_float(dtype) && dtype != DType::f64, where, fmt::format("{} is {}", what, name(dtype)), "fp32, bf16 or fp16");
}

void check(const AttentionAttributes& attributes, TypeSpan inputs, std::string_view where) {
  const Shape& qkv = inputs[0].shape;
  require_number(inputs[0].dtype, where, "qkv");
  require_number(attributes.output, where, "what it makes");
  require(attributes.heads > 0 && qkv.rank() == 3 && qkv.last() % (3 * attributes.heads) == 0, where,
          fmt::format("qkv is {} for {} heads", to_text(qkv), attributes.heads),
          "pass (batch, tokens, 3 * width) with the width a multiple of the heads");
  require_sample_ids(inputs[1], qkv, where);
  if (attributes.segments) require_type(inputs.back(), {DType::i32, {qkv[0], qkv[1]}}, where, "segments");
}

Shape attended(const Shape& qkv) { return {qkv[0], qkv[1], qkv[2] / 3}; }
ValueType log_sums(const AttentionAttributes& attributes, const Shape& qkv) {
  return {DType::f32, {qkv[0], attributes.heads, qkv[1]}};
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<AttentionAttributes>();
  require_inputs(inputs, attributes.segments ? 3 : 2, "attention");
  check(attributes, inputs, "attention");
  const Shape& qkv = inputs[0].shape;
  return {{attributes.output, attended(qkv)}, log_sums(attributes, qkv)};
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<AttentionAttributes>();
  require_inputs(inputs, attributes.segments ? 6 : 5, "attention_backward");
  check(attributes, inputs, "attention_backward");
  const Shape& qkv = inputs[0].shape;
  for (const std::size_t i : {2, 4}) {
    const char* what = i == 2 ? "the output" : "the output's gradient";
    require_number(inputs[i].dtype, "attention_backward", what);
    require_type(inputs[i], {inputs[i].dtype, attended(qkv)}, "attention_backward", what);
  }
  require_type(inputs[3], log_sums(attributes, qkv), "attention_backward", "the log-sum-exp");
  return {{attributes.output, qkv}};
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
  std::vector<ValueId> inputs{context.input(0), context.input(1), context.output(0), context.output(1), context.gradient(0)};
  if (node.attributes.as<AttentionAttributes>().segments) inputs.push_back(context.input(2));
  const auto outputs = context.builder().add_random(kAttentionBackward, node.attributes, std::move(inputs), {"grad"}, node.site);
  context.contribute(0, outputs[0]);
}

std::vector<std::size_t> either(const Attributes&) { return {0}; }
std::vector<std::size_t> either_of_backward(const Attributes&) { return {0, 2, 4}; }

Attributes rounded(const Attributes& any, DType to) {
  AttentionAttributes attributes = any.as<AttentionAttributes>();
  attributes.output = to;
  return attributes;
}

}  // namespace

const OpDef kAttention{.name = "attention",
                       .infer = infer,
                       .cost = cost<2>,
                       .gradient = gradient,
                       .either = either,
                       .rounded = rounded,
                       .costly = true,
                       .random = true};
const OpDef kAttentionBackward{.name = "attention_backward",
                               .infer = infer_backward,
                               .cost = cost<5>,
                               .not_differentiable = kFirstOrderOnly,
                               .either = either_of_backward,
                               .rounded = rounded,
                               .costly = true,
                               .random = true};

OpList attention_ops() { return {{&kAttention}, {&kAttentionBackward, {cuda_attention_backward_scratch}}}; }

ValueId attention(GraphBuilder& builder, ValueId qkv, ValueId sample_ids, ValueId segments, std::int64_t heads, double dropout,
                  std::uint64_t seed) {
  const std::uint64_t site = random_site(builder.full_name("attended"));
  const AttentionAttributes attributes{
      .heads = heads, .dropout = dropout, .key = dropout > 0 ? philox_key(seed, site) : NoiseKey{}, .segments = segments.valid()};
  std::vector<ValueId> inputs{qkv, sample_ids};
  if (segments.valid()) inputs.push_back(segments);
  return builder.add_random(kAttention, attributes, std::move(inputs), {"attended", "lse"}, site).front();
}

}  // namespace plimsoll::ops
