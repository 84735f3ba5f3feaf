// Ops of adapters on linear layers: the sum of two paths, and magnitudes of the rows of a changed matrix (Liu et al., "DoRA",
// 2024). The matrix W + s B A is never made: its row norms follow from W, A and B.
#pragma once

#include <optional>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct MagnitudeAttributes {
  bool bias = false;        // x has one, which is taken off before and added after
  bool accumulate = false;  // of the gradient
  PLIMSOLL_FIELDS(bias, accumulate)
};

struct RowNormAttributes {
  double scale = 1;
  bool inputs_first = false;               // W is stored as [inputs, outputs]
  std::optional<BlockMatrix> blocks = {};  // of a W that is stored in them
  PLIMSOLL_FIELDS(scale, inputs_first, blocks)
};

// x and y are fp32, bf16 or fp16, all others fp32.
// sum_paths: (x, y) -> x + y, all of one width.
// magnitude: (x [.., n], m [n], norms [n], [bias [n]]) -> (x - bias) m / norms + bias. The norms are a constant to its gradient.
// magnitude_backward: (dy, x, norms, [bias], [into]) -> the gradient of m: the sum over rows of dy (x - bias) / norms.
// row_norms: (norms [n], W, A [r, k], B [n, r]) -> norms: of each of the n rows of W + scale B A, in the update. W [n, k] or
// [k, n] is fp32, bf16 or fp16, or in blocks, and may come in ranges: in two passes where scales lie behind all codes.
extern const OpDef kSumPaths, kMagnitude, kMagnitudeBackward, kRowNorms;

ValueId sum_paths(GraphBuilder& builder, ValueId x, ValueId y, std::string name);
// `bias` may be invalid.
ValueId magnitude(GraphBuilder& builder, ValueId x, ValueId m, ValueId norms, ValueId bias, std::string name);

}  // namespace plimsoll::ops
