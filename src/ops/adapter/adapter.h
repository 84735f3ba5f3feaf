// Ops of adapters on linear layers: the sum of two paths, and magnitudes of the rows of a changed matrix (Liu et al., "DoRA",
// 2024). The matrix W + s B A is never made: its row norms follow from W, A and B.
#pragma once

#include <optional>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct MagnitudeAttributes {
  bool bias = false;        // x includes a bias, which magnitude subtracts first and adds at the end
  bool accumulate = false;  // of magnitude_backward: the last input is the accumulator
  PLIMSOLL_FIELDS(bias, accumulate)
};

struct RowNormAttributes {
  double scale = 1;
  bool inputs_first = false;               // W is stored as [inputs, outputs]
  std::optional<BlockMatrix> blocks = {};  // the blocks of a stored W
  PLIMSOLL_FIELDS(scale, inputs_first, blocks)
};

// x and y are fp32, bf16 or fp16; the other operands are fp32.
// sum_paths: (x, y) -> x + y, all of one dtype.
// magnitude: (x [.., n], m [n], norms [n], [bias [n]]) -> (x - bias) m / norms + bias. Its gradient treats norms as constants.
// magnitude_backward: (dy, x, norms, [bias], [into]) -> the gradient of m: the sum over rows of dy (x - bias) / norms.
// row_norms: (norms [n], W, A [r, k], B [n, r]) -> norms of the n rows of W + scale B A, in the update. W [n, k] or [k, n] is
// fp32, bf16, fp16 or in blocks. It may come in ranges, in two passes if scales follow all codes.
extern const OpDef kSumPaths, kMagnitude, kMagnitudeBackward, kRowNorms;

ValueId sum_paths(GraphBuilder& builder, ValueId x, ValueId y, std::string name);
// `bias` may be invalid.
ValueId magnitude(GraphBuilder& builder, ValueId x, ValueId m, ValueId norms, ValueId bias, std::string name);

}  // namespace plimsoll::ops
