#include <fmt/core.h>

#include "graph/gradient.h"
#include "ops/check.h"
#include "ops/embedding/cuda.h"
#include "ops/embedding/embedding.h"
#include "ops/families.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 3, "embedding");
  const Shape &tokens = inputs[0].shape, &table = inputs[1].shape, &positions = inputs[2].shape;
  require(inputs[0].dtype == DType::i32 && tokens.rank() == 2, "embedding", "tokens are " + to_text(inputs[0]),
          "pass i32(batch, tokens)");
  for (const ValueType& each : inputs.subspan(1)) {
    require(each.dtype == DType::f32 || each.dtype == DType::bf16, "embedding", "a table is " + to_text(each), "fp32 or bf16");
  }
  require(table.rank() == 2 && positions.rank() == 2 && table.last() == positions.last() && positions[0] >= tokens[1],
          "embedding",
          fmt::format("the table is {}, the positions {} for {} tokens", to_text(table), to_text(positions), tokens[1]),
          "equal widths, and a position for each token");
  return {{DType::f32, {tokens[0], tokens[1], table.last()}}};
}

Cost cost(const Attributes&, TypeSpan, TypeSpan outputs) {
  const double bytes = static_cast<double>(dense_bytes(outputs[0].shape, outputs[0].dtype));
  return {bytes / 4, 3 * bytes};
}

void gradient(GradientContext& context) {
  const EmbeddingBackwardAttributes positions{context.builder().shape(context.input(2))[0]};
  if (context.wants(2)) context.contribute(2, kPositionGradient, positions, {context.gradient(0)});
  if (context.wants(1)) add_row_gradient(context);
}

std::vector<std::size_t> either(const Attributes&) { return {1, 2}; }

// As large as those of the loss, with which the table may be shared.
RangeRule ranges(const Attributes&, TypeSpan inputs) { return {kTableRows * inputs[1].shape.last(), {1}}; }

RangeRule ranges_of_token_gradient(const Attributes& any, TypeSpan inputs) {
  RangeRule rule{kTableRows * inputs[1].shape.last(), {}};
  if (any.as<EmbeddingBackwardAttributes>().accumulate) rule.inputs = {2};
  return rule;
}

template <std::size_t kGradient>
std::vector<ValueType> infer_gradient(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<EmbeddingBackwardAttributes>();
  require_inputs(inputs, kGradient + 1 + std::size_t{attributes.accumulate}, "embedding gradient");
  require_dtype(inputs.subspan(kGradient), DType::f32, "embedding gradient");
  const Shape& dy = inputs[kGradient].shape;
  require(dy.rank() == 3, "embedding gradient", "the gradient is " + to_text(dy), "pass (batch, tokens, width)");
  if constexpr (kGradient == 1) require_type(inputs[0], {DType::i32, {dy[0], dy[1]}}, "embedding gradient", "the tokens");
  require(kGradient == 1 || attributes.rows >= dy[1], "embedding gradient",
          fmt::format("there are {} positions for the {} tokens of {}", attributes.rows, dy[1], to_text(dy)),
          "a position for each token");
  const ValueType output{DType::f32, {attributes.rows, dy.last()}};
  if (attributes.accumulate) require_type(inputs.back(), output, "embedding gradient", "the accumulator");
  return {output};
}

template <std::size_t kGradient>
Cost cost_of_gradient(const Attributes&, TypeSpan inputs, TypeSpan) {
  const double bytes = static_cast<double>(dense_bytes(inputs[kGradient].shape, DType::f32));
  return {bytes / 4, 3 * bytes};
}

template <std::size_t kGradient>
std::vector<Alias> aliases_of_gradient(const Attributes& any) {
  if (!any.as<EmbeddingBackwardAttributes>().accumulate) return {};
  return {{kGradient + 1, 0, AliasKind::accumulates}};
}

std::vector<ValueType> infer_slots(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 2, "token_slots");
  require(inputs[0].dtype == DType::i32 && inputs[0].shape.rank() == 2, "token_slots", "tokens are " + to_text(inputs[0]),
          "pass i32(batch, tokens)");
  require(inputs[1].dtype == DType::i32 && inputs[1].shape.rank() == 1 && any.as<TokenSlotsAttributes>().slots > 0, "token_slots",
          "the map is " + to_text(inputs[1]), "pass i32(rows + 1), and at least one slot");
  return {inputs[0], inputs[1]};
}

std::vector<Alias> aliases_of_slots(const Attributes&) { return {{1, 1, AliasKind::accumulates}}; }

Cost cost_of_slots(const Attributes&, TypeSpan inputs, TypeSpan outputs) { return {0, bytes_touched(inputs, outputs)}; }

std::vector<ValueType> infer_add_rows(const Attributes& any, TypeSpan inputs) {
  const bool slots = any.as<AddRowsAttributes>().slots;
  require_inputs(inputs, slots ? 3 : 2, "add_rows");
  require_dtype(inputs.first(2), DType::f32, "add_rows");
  const Shape &all = inputs[0].shape, &rows = inputs[1].shape;
  require(all.rank() == 2 && rows.rank() == 2 && all.last() == rows.last() && (slots || all == rows), "add_rows",
          to_text(inputs[1]) + " is added to " + to_text(inputs[0]), "rows of one width, all of them or those with a slot");
  if (slots) require_type(inputs[2], {DType::i32, Shape{all[0] + 1}}, "add_rows", "the slots");
  return {inputs[0]};
}

std::vector<Alias> aliases_of_add_rows(const Attributes&) { return {{0, 0, AliasKind::updates}}; }

RangeRule ranges_of_add_rows(const Attributes& any, TypeSpan) {
  RangeRule rule;
  rule.inputs = {0};
  if (!any.as<AddRowsAttributes>().slots) rule.inputs.push_back(1);
  return rule;
}

Cost cost_of_add_rows(const Attributes&, TypeSpan inputs, TypeSpan) {
  const double bytes = static_cast<double>(dense_bytes(inputs[1].shape, DType::f32));
  const double map = inputs.size() > 2 ? bytes_touched(inputs.subspan(2), {}) : 0;
  return {bytes / 4, 3 * bytes + map};
}

}  // namespace

const OpDef kEmbedding{
    .name = "embedding", .infer = infer, .cost = cost, .gradient = gradient, .ranges = ranges, .either = either};
const OpDef kTokenGradient{.name = "token_gradient",
                           .infer = infer_gradient<1>,
                           .cost = cost_of_gradient<1>,
                           .not_differentiable = kFirstOrderOnly,
                           .aliases = aliases_of_gradient<1>,
                           .ranges = ranges_of_token_gradient};
const OpDef kPositionGradient{.name = "position_gradient",
                              .infer = infer_gradient<0>,
                              .cost = cost_of_gradient<0>,
                              .not_differentiable = kFirstOrderOnly,
                              .aliases = aliases_of_gradient<0>};
const OpDef kTokenSlots{.name = "token_slots",
                        .infer = infer_slots,
                        .cost = cost_of_slots,
                        .not_differentiable = kFirstOrderOnly,
                        .aliases = aliases_of_slots};
const OpDef kAddRows{.name = "add_rows",
                     .infer = infer_add_rows,
                     .cost = cost_of_add_rows,
                     .not_differentiable = kFirstOrderOnly,
                     .aliases = aliases_of_add_rows,
                     .ranges = ranges_of_add_rows};

OpList embedding_ops() {
  return {{&kEmbedding},
          {&kTokenGradient, {cuda_token_gradient_scratch}},
          {&kPositionGradient},
          {&kTokenSlots, {cuda_token_slots_scratch}},
          {&kAddRows}};
}

void add_row_gradient(GradientContext& context, std::int64_t padding) {
  GraphBuilder& builder = context.builder();
  const ValueId dy = context.gradient(0);
  EmbeddingBackwardAttributes rows{builder.shape(context.input(1))[0], false, padding};
  const RowAccumulators apart = context.shared(1) ? context.rows_apart(1) : RowAccumulators{};
  if (!apart.rows.valid()) return context.contribute(1, kTokenGradient, rows, {context.input(0), dy});
  const std::string name = builder.value(context.input(1)).name + ".grad.rows";
  ValueId which = context.input(0);
  if (apart.map.valid()) {
    const TokenSlotsAttributes slots{builder.shape(apart.rows)[0], padding};
    const auto outputs = builder.add(kTokenSlots, slots, {which, apart.map}, {"slots", "map"});
    builder.rename(outputs[1], builder.value(apart.map).name);
    which = outputs[0];
    rows.padding = -1;  // it has no slot
  }
  rows.rows = builder.shape(apart.rows)[0];
  rows.accumulate = true;
  builder.rename(builder.add1(kTokenGradient, rows, {which, dy, apart.rows}, "grad"), name);
}

ValueId embedding(GraphBuilder& builder, ValueId tokens, ValueId table, ValueId positions, std::string name) {
  for (const ValueId each : {table, positions}) {
    if (builder.value(each).parameter) builder.mark_table(each);
  }
  return builder.add1(kEmbedding, NoAttributes{}, {tokens, table, positions}, std::move(name));
}

}  // namespace plimsoll::ops
