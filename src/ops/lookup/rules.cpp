#include <fmt/core.h>

#include "graph/gradient.h"
#include "ops/check.h"
#include "ops/embedding/embedding.h"
#include "ops/families.h"
#include "ops/lookup/lookup.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 2, "lookup");
  const auto& attributes = any.as<LookupAttributes>();
  const Shape &tokens = inputs[0].shape, table = table_shape(attributes.blocks, inputs[1], "lookup");
  require(inputs[0].dtype == DType::i32 && tokens.rank() == 2, "lookup", "tokens are " + to_text(inputs[0]),
          "pass i32(batch, tokens)");
  const bool numbers = attributes.blocks || inputs[1].dtype == DType::f32 || inputs[1].dtype == DType::bf16;
  require(numbers && table.rank() == 2, "lookup", "the table is " + to_text(inputs[1]), "pass (rows, width) of fp32 or bf16");
  const std::int64_t padding = attributes.padding;
  require(padding < table[0], "lookup", fmt::format("the padding is row {} of {}", padding, table[0]), "a row of the table");
  return {{DType::f32, {tokens[0], tokens[1], table.last()}}};
}

Cost cost(const Attributes&, TypeSpan, TypeSpan outputs) { return {0, 2 * bytes_touched({}, outputs)}; }

void gradient(GradientContext& context) {
  if (context.wants(1)) add_row_gradient(context, context.node().attributes.as<LookupAttributes>().padding);
}

std::vector<std::size_t> second(const Attributes&) { return {1}; }

std::optional<StoredReader> reads_stored(const Attributes& any, std::size_t input, const std::optional<BlockMatrix>& blocks) {
  return reads_table<LookupAttributes>(kLookup, any, input, blocks);
}

// Blocks are whole: their scales are apart from them.
RangeRule ranges(const Attributes& any, TypeSpan inputs) {
  if (any.as<LookupAttributes>().blocks) return {};
  return {kTableRows * inputs[1].shape.last(), {1}};
}

std::vector<ValueType> infer_gather(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "gather_rows");
  const Shape& x = inputs[0].shape;
  require_dtype(inputs.first(1), DType::f32, "gather_rows");
  require(x.rank() == 3, "gather_rows", "x is " + to_text(x), "pass (batch, tokens, width)");
  const Shape& index = inputs[1].shape;
  require(inputs[1].dtype == DType::i32 && index.rank() == 1, "gather_rows", "the index is " + to_text(inputs[1]),
          "pass i32(rows)");
  return {{DType::f32, {index[0], x[2]}}};
}

}  // namespace

const OpDef kLookup{.name = "lookup",
                    .infer = infer,
                    .cost = cost,
                    .gradient = gradient,
                    .ranges = ranges,
                    .reads_stored = reads_stored,
                    .either = second};
const OpDef kGatherRows{.name = "gather_rows",
                        .infer = infer_gather,
                        .cost = cost,
                        .not_differentiable = "it serves generation and forward passes, which have no backward pass"};

OpList lookup_ops() { return {{&kLookup}, {&kGatherRows}}; }

ValueId lookup(GraphBuilder& builder, ValueId tokens, ValueId table, std::int64_t padding, std::string name) {
  if (builder.value(table).parameter) builder.mark_table(table);
  return builder.add1(kLookup, LookupAttributes{.padding = padding, .blocks = builder.blocks_of(table)}, {tokens, table},
                      std::move(name));
}

ValueId gather_rows(GraphBuilder& builder, ValueId x, ValueId index, std::string name) {
  return builder.add1(kGatherRows, NoAttributes{}, {x, index}, std::move(name));
}

}  // namespace plimsoll::ops
