// Matrix product with optional transposes, bias and addition into an accumulator:
//   out = op(a) op(b) [+ bias] [+ into].
// Without a batch, the leading axes of `a` (and of `b` in a product of two activations) are flattened into rows: x [b, t, k]
// times w [k, n] is [b, t, n], and the weight gradient x^T dy of two [b, t, .] values is [k, n]. With a batch, leading axes are
// equal batch axes. a and b are fp32, or both of one 16-bit type, to which the product may be rounded; all else is fp32.
#pragma once

#include "graph/builder.h"

namespace plimsoll::ops {

struct MatmulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  bool batched = false;
  bool bias = false;          // third input [n], added to every row
  bool accumulate = false;    // last input, added in place: the output is its new version
  DType output = DType::f32;  // fp32 or, without accumulation, the type of a and b
  bool few_rows = false;      // a product with few rows runs by the kernel for few rows (take_few_rows)
  template <class V>
  void fields(V&& v) const {
    v("transpose_a", transpose_a), v("transpose_b", transpose_b), v("batched", batched), v("bias", bias),
        v("accumulate", accumulate), v("output", output);
    if (few_rows) v("few_rows", few_rows);
  }
};

// The product's extents after flattening: op(a) is m x k, op(b) is k x n.
struct MatmulExtents {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
};
MatmulExtents matmul_extents(const MatmulAttributes& attributes, TypeSpan inputs);

extern const OpDef kMatmul;

ValueId matmul(GraphBuilder& builder, ValueId a, ValueId b, MatmulAttributes attributes, std::string name);
// x w + bias, with w [k, n]; `bias` may be invalid.
ValueId linear(GraphBuilder& builder, ValueId x, ValueId w, ValueId bias, std::string name);

// Marks the products of passes with results per token, such as generation: with few rows they take as long as reading their
// matrix. Passes that sum losses keep the kernels of a training, and their bits.
void take_few_rows(Graph& graph);

}  // namespace plimsoll::ops
