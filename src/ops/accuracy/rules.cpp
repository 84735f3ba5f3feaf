#include <fmt/core.h>

#include "ops/accuracy/accuracy.h"
#include "ops/families.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer(const Attributes&, TypeSpan inputs) {
  constexpr const char* kWhere = "count_correct";
  require_inputs(inputs, 3, kWhere);
  require_dtype(inputs.first(1), DType::f32, kWhere);
  Shape rows = inputs[0].shape;
  require(rows.rank() >= 2 && rows.last() >= 1, kWhere, fmt::format("logits is {}", to_text(inputs[0])),
          "pass (rows, classes), or more axes before the classes");
  rows.pop_back();
  require_type(inputs[1], {DType::i32, rows}, kWhere, "labels");
  require_type(inputs[2], {DType::f64, Shape{kTopClasses.size()}}, kWhere, "the counts");
  return {inputs[2]};
}

}  // namespace

const OpDef kCountCorrect{.name = "count_correct",
                          .infer = infer,
                          .cost = cost_per_element<2>,
                          .not_differentiable = "it counts rows",
                          .aliases = accumulates_into<2>};

OpList accuracy_ops() { return {{&kCountCorrect}}; }

}  // namespace plimsoll::ops
