// Products with a frozen, stored matrix: y = x op(W) [+ bias], with x [.., k] of fp32 or 16 bits and W in blocks (u8 [stored
// bytes]) or of bf16 (rows, columns). Leading axes of x are rows. x gets a gradient by the same op, the bias by a sum of rows.
// The elements of W are decoded to fp32, or rounded to the type of a 16-bit x.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace plimsoll::ops {

struct BlockMatmulAttributes {
  std::optional<BlockMatrix> blocks;  // of W; absent: W is bf16
  bool transposed = false;            // op(W) is W transposed
  bool bias = false;                  // third input [n], added to every row
  DType output = DType::f32;          // fp32 or the type of x
  bool few_rows = false;              // like that of a matmul
  template <class V>
  void fields(V&& v) const {
    v("blocks", blocks);
    v("transposed", transposed), v("bias", bias), v("output", output);
    if (few_rows) v("few_rows", few_rows);
  }
};

// x is m x k, op(W) is k x n.
struct BlockMatmulExtents {
  std::int64_t m = 0, n = 0, k = 0;
};
BlockMatmulExtents block_matmul_extents(const BlockMatmulAttributes& attributes, TypeSpan inputs);

extern const OpDef kBlockMatmul;

}  // namespace plimsoll::ops
