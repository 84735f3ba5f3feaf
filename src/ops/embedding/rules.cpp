#include <fmt/core.h>

#include <utility>

#include "ops/embedding/cuda.h"
#include "ops/embedding/embedding.h"
#include "ops/families.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

std::size_t inputs_of(const EmbeddingAttributes& attributes) {
  return attributes.positions == LearnedPositions::none ? 2 : attributes.positions == LearnedPositions::in_order ? 3 : 4;
}

void require_numbers(const ValueType& table, std::string_view what) {
  require((table.dtype == DType::f32 || table.dtype == DType::bf16) && table.shape.rank() == 2, "embedding",
          fmt::format("{} is {}", what, to_text(table)), "pass (rows, width) of fp32 or bf16");
}

void require_positions(const ValueType& positions, std::int64_t tokens, std::int64_t width) {
  require_numbers(positions, "the table of positions");
  const Shape& shape = positions.shape;
  require(shape[0] >= tokens && shape[1] == width, "embedding",
          fmt::format("the positions are {} for {} tokens of width {}", to_text(shape), tokens, width),
          "equal widths, and a position for each token");
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  const auto& attributes = any.as<EmbeddingAttributes>();
  const std::size_t count = inputs_of(attributes);
  require_inputs(inputs, count, "embedding");
  const Shape &tokens = inputs[0].shape, table = table_shape(attributes.blocks, inputs[1], "embedding");
  require(inputs[0].dtype == DType::i32 && tokens.rank() == 2, "embedding", "tokens are " + to_text(inputs[0]),
          "pass i32(batch, tokens)");
  if (!attributes.blocks) require_numbers(inputs[1], "the table");
  require(!attributes.blocks || count == 2, "embedding", "the table is in blocks", "no learned positions");
  const std::int64_t padding = attributes.padding;
  require(padding < table[0], "embedding", fmt::format("the padding is row {} of {}", padding, table[0]), "a row of the table");
  if (count > 2) require_positions(inputs[2], count == 3 ? tokens[1] : 1, table.last());
  if (count > 3) require_type(inputs[3], inputs[0], "embedding", "the position of each token");
  return {{DType::f32, {tokens[0], tokens[1], table.last()}}};
}

Cost cost(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  const double bytes = bytes_touched({}, outputs);
  return inputs.size() > 2 ? Cost{bytes / 4, 3 * bytes} : Cost{0, 2 * bytes};
}

// The gradient of the rows that the input `numbers` looks up in the input `table`.
void add_row_gradient(GradientContext& context, std::size_t numbers, std::size_t table, std::int64_t padding) {
  GraphBuilder& builder = context.builder();
  const ValueId dy = context.gradient(0);
  EmbeddingBackwardAttributes rows{builder.shape(context.input(table))[0], false, padding};
  const RowAccumulators apart = context.shared(table) ? context.rows_apart(table) : RowAccumulators{};
  if (!apart.rows.valid()) return context.contribute(table, kTokenGradient, rows, {context.input(numbers), dy});
  const std::string name = builder.value(context.input(table)).name + ".grad.rows";
  ValueId which = context.input(numbers);
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

void gradient(GradientContext& context) {
  const auto& attributes = context.node().attributes.as<EmbeddingAttributes>();
  if (attributes.positions == LearnedPositions::given && context.wants(2)) add_row_gradient(context, 3, 2, -1);
  if (attributes.positions == LearnedPositions::in_order && context.wants(2)) {
    const EmbeddingBackwardAttributes rows{context.builder().shape(context.input(2))[0]};
    context.contribute(2, kPositionGradient, rows, {context.gradient(0)});
  }
  if (context.wants(1)) add_row_gradient(context, 0, 1, attributes.padding);
}

std::vector<std::size_t> either(const Attributes& any) {
  if (any.as<EmbeddingAttributes>().positions == LearnedPositions::none) return {1};
  return {1, 2};
}

std::optional<StoredReader> reads_stored(const Attributes& any, std::size_t input, const std::optional<BlockMatrix>& blocks) {
  if (any.as<EmbeddingAttributes>().positions != LearnedPositions::none) return {};
  return reads_table<&kEmbedding, EmbeddingAttributes>(any, input, blocks);
}

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

std::vector<ValueType> infer_slots(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 2, "token_slots");
  require(inputs[0].dtype == DType::i32 && inputs[0].shape.rank() == 2, "token_slots", "tokens are " + to_text(inputs[0]),
          "pass i32(batch, tokens)");
  require(inputs[1].dtype == DType::i32 && inputs[1].shape.rank() == 1 && any.as<TokenSlotsAttributes>().slots > 0, "token_slots",
          "the map is " + to_text(inputs[1]), "pass i32(rows + 1), and at least one slot");
  return {inputs[0], inputs[1]};
}

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

std::vector<ValueType> infer_squares(const Attributes& any, TypeSpan inputs) {
  infer_add_rows(any, inputs);
  return {{DType::f64, Shape{1}}};
}

RangeRule ranges_of_add_rows(const Attributes& any, TypeSpan) {
  RangeRule rule;
  rule.inputs = {0};
  if (!any.as<AddRowsAttributes>().slots) rule.inputs.push_back(1);
  return rule;
}

RangeRule ranges_of_squares(const Attributes& any, TypeSpan inputs) {
  RangeRule rule = ranges_of_add_rows(any, inputs);
  rule.step = kNormTile;
  return rule;
}

Cost cost_of_add_rows(const Attributes&, TypeSpan inputs, TypeSpan) {
  const double bytes = static_cast<double>(dense_bytes(inputs[1].shape, DType::f32));
  const double map = inputs.size() > 2 ? bytes_touched(inputs.subspan(2), {}) : 0;
  return {bytes / 4, 3 * bytes + map};
}

}  // namespace

const OpDef kEmbedding{.name = "embedding",
                       .infer = infer,
                       .cost = cost,
                       .gradient = gradient,
                       .ranges = ranges_of_table<EmbeddingAttributes>,
                       .reads_stored = reads_stored,
                       .either = either};
const OpDef kTokenGradient{.name = "token_gradient",
                           .infer = infer_gradient<1>,
                           .cost = cost_of_gradient<1>,
                           .not_differentiable = kFirstOrderOnly,
                           .aliases = accumulates_if<EmbeddingBackwardAttributes, 2>,
                           .ranges = ranges_of_token_gradient};
const OpDef kPositionGradient{.name = "position_gradient",
                              .infer = infer_gradient<0>,
                              .cost = cost_of_gradient<0>,
                              .not_differentiable = kFirstOrderOnly,
                              .aliases = accumulates_if<EmbeddingBackwardAttributes, 1>};
const OpDef kTokenSlots{.name = "token_slots",
                        .infer = infer_slots,
                        .cost = cost_per_element<0>,
                        .not_differentiable = kFirstOrderOnly,
                        .aliases = accumulates_into<1, 1>};
const OpDef kAddRows{.name = "add_rows",
                     .infer = infer_add_rows,
                     .cost = cost_of_add_rows,
                     .not_differentiable = kFirstOrderOnly,
                     .aliases = updates<0>,
                     .ranges = ranges_of_add_rows};

const OpDef kSquaresWithRows{.name = "squares_with_rows",
                             .infer = infer_squares,
                             .cost = cost_per_element<2>,
                             .not_differentiable = kUpdateOnly,
                             .ranges = ranges_of_squares};

OpList embedding_ops() {
  return {{&kEmbedding},        {&kTokenGradient, {.scratch = cuda_token_gradient_scratch}},
          {&kPositionGradient}, {&kTokenSlots, {.scratch = cuda_token_slots_scratch}},
          {&kAddRows},          {&kSquaresWithRows, {.scratch = cuda_squares_with_rows_scratch}}};
}

std::string attribute_text(LearnedPositions positions) {
  switch (positions) {
    case LearnedPositions::in_order: return "in_order";
    case LearnedPositions::given: return "given";
    case LearnedPositions::none: return "none";
  }
  return "?";
}

ValueId embedding(GraphBuilder& builder, ValueId tokens, ValueId table, ValueId positions, ValueId given, std::int64_t padding,
                  std::string name) {
  EmbeddingAttributes attributes{LearnedPositions::none, padding, builder.blocks_of(table)};
  std::vector<ValueId> inputs{tokens, table};
  if (positions.valid()) {
    attributes.positions = given.valid() ? LearnedPositions::given : LearnedPositions::in_order;
    inputs.push_back(positions);
    if (given.valid()) inputs.push_back(given);
  }
  for (const ValueId each : {table, positions}) {
    if (each.valid() && builder.value(each).parameter) builder.mark_table(each);
  }
  return builder.add1(kEmbedding, attributes, std::move(inputs), std::move(name));
}

}  // namespace plimsoll::ops
