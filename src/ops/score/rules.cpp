#include <fmt/core.h>

#include "ops/families.h"
#include "ops/rules.h"
#include "ops/score/score.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 2, "score");
  require_dtype(inputs.first(1), DType::f32, "score");
  const auto& blocks = any.as<ScoreAttributes>().blocks;
  const Shape &x = inputs[0].shape, table = table_shape(blocks, inputs[1], "score");
  require(blocks || inputs[1].dtype == DType::f32 || inputs[1].dtype == DType::bf16, "score",
          "the table is " + to_text(inputs[1]), "fp32 or bf16");
  require(x.rank() == 2 && table.rank() == 2 && x.last() == table.last(), "score",
          fmt::format("the rows are {}, the table {}", to_text(x), to_text(table)), "rows of one width");
  return {{DType::f32, {x[0], table[0]}}};
}

Cost cost(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {2 * static_cast<double>(outputs[0].shape.elements()) * static_cast<double>(inputs[0].shape.last()),
          bytes_touched(inputs, outputs)};
}

}  // namespace

const OpDef kScore{.name = "score",
                   .infer = infer,
                   .cost = cost,
                   .not_differentiable = "its results are logits; the loss of a training computes its own",
                   .ranges = ranges_of_table<ScoreAttributes>,
                   .reads_stored = reads_table<&kScore, ScoreAttributes>,
                   .costly = true};

OpList score_ops() { return {{&kScore}}; }

ValueId score(GraphBuilder& builder, ValueId x, ValueId table, std::string name) {
  return builder.add1(kScore, ScoreAttributes{builder.blocks_of(table)}, {x, table}, std::move(name));
}

}  // namespace plimsoll::ops
