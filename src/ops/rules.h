// Rules that ops of several families share, as values of OpDef's fields.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "graph/gradient.h"
#include "ops/attributes.h"
#include "ops/check.h"

namespace plimsoll::ops {

// Positions of inputs.
template <std::size_t... kInputs>
std::vector<std::size_t> inputs_at(const Attributes&) {
  return {kInputs...};
}

// The first output may take the bytes of each of these inputs.
template <std::size_t... kInputs>
std::vector<Alias> over(const Attributes&) {
  return {{kInputs, 0, AliasKind::may_overwrite}...};
}
// An output is an input changed in place (updates), or a sum over a window (accumulates_into).
template <std::size_t kInput, std::size_t kOutput = 0>
std::vector<Alias> updates(const Attributes&) {
  return {{kInput, kOutput, AliasKind::updates}};
}
template <std::size_t kInput, std::size_t kOutput = 0>
std::vector<Alias> accumulates_into(const Attributes&) {
  return {{kInput, kOutput, AliasKind::accumulates}};
}
// The first output is a sum over a window if the attributes A have `accumulate`.
template <class A, std::size_t kInput>
std::vector<Alias> accumulates_if(const Attributes& any) {
  return any.as<A>().accumulate ? accumulates_into<kInput>(any) : std::vector<Alias>{};
}

// kFlops operations for each element of the first input; each operand is read or written once.
template <int kFlops>
Cost cost_per_element(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {kFlops * static_cast<double>(inputs[0].shape.elements()), bytes_touched(inputs, outputs)};
}

// The attributes A with another type of the output.
template <class A>
Attributes with_output(const Attributes& any, DType to) {
  A attributes = any.as<A>();
  attributes.output = to;
  return attributes;
}

// kOp itself as the reader of its second input, a table in these blocks or in bf16.
template <const OpDef* kOp, class A>
std::optional<StoredReader> reads_table(const Attributes& any, std::size_t input, const std::optional<BlockMatrix>& blocks) {
  if (input != 1) return {};
  A attributes = any.as<A>();
  attributes.blocks = blocks;
  return StoredReader{kOp, std::move(attributes)};
}

// Ranges of kTableRows rows of the second input, a table. A table in blocks has no ranges, because its scales may follow all
// codes.
template <class A>
RangeRule ranges_of_table(const Attributes& any, TypeSpan inputs) {
  if (any.as<A>().blocks) return {};
  return {kTableRows * inputs[1].shape.last(), {1}};
}

// True if one call of a gradient op can serve all these accumulators. A call either writes all or adds to all, so all of them
// must have begun in this window, or none.
inline bool serves_all(const GraphBuilder& builder, const std::vector<ValueId>& into) {
  if (into.empty() || !std::ranges::all_of(into, [](ValueId each) { return each.valid(); })) return false;
  const bool twice = into.size() == 2 && into.front() == into.back();
  const auto begun = [&](ValueId each) { return builder.value(each).version_of.valid(); };
  return !twice && begun(into.front()) == begun(into.back());
}

// The gradient of a sum: each operand gets the gradient of the output.
inline void gradient_of_sum(GradientContext& context) {
  for (const std::size_t i : {0, 1}) {
    if (context.wants(i)) context.contribute(i, context.gradient(0));
  }
}

}  // namespace plimsoll::ops
