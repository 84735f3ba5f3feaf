// Products with a frozen matrix as it is stored: y = x op(W) [+ bias], with x [.., k] of fp32 or 16 bits and W in blocks
// (u8 [stored bytes]) or of bf16 (rows, columns). Leading axes of x are rows. The gradient flows to x, by the same op, and to the
// bias. In fp32 the elements of W are fp32; where x has 16 bits they are rounded to these.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace plimsoll::ops {

struct BlockMatmulAttributes {
  std::optional<BlockMatrix> blocks;  // of W; nothing: it is bf16
  bool transposed = false;            // op(W) is W transposed
  bool bias = false;                  // third input [n], added to every row
  DType output = DType::f32;          // or the type of x
  bool few_rows = false;              // as of a matmul
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
