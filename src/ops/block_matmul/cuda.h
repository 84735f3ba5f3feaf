// Products with a frozen matrix on a GPU, known without a GPU. The matrix is decoded in scratch to the type of x, strip by strip
// of the columns of op(W), each of which cuBLASLt multiplies with all rows of x. A matrix that has the type of x is multiplied as
// it is.
//
//   op(W)  k x n:  | strip | strip | rest |      y  m x n:  | strip | strip | rest |
#pragma once

#include <algorithm>

#include "base/ceil_div.h"
#include "ops/block_matmul/gemm_shape.h"
#include "ops/matmul/cuda.h"

namespace plimsoll {

struct CudaStrips {
  // The most bytes of a decoded strip. Tiles of up to 8,192 x 2,048 in 16 bits keep a GPU busy, and stay in its second cache.
  static constexpr std::int64_t kMostBytes = 32LL << 20;
  // Columns of strips come in groups, so that every strip of y begins at a multiple of 256 bytes.
  static constexpr std::int64_t kGroup = 128;

  GemmShape shape;
  bool decodes;          // W has another type than x
  std::int64_t columns;  // of a strip; the last may be shorter
  Bytes product, all;    // scratch: of a product, and with the strip that follows it

  explicit CudaStrips(const KernelRequest& request)
      : shape(block_gemm_shape(request)),
        decodes(request.inputs[1].dtype != shape.operands),
        columns(decodes ? even_columns(shape) : shape.n),
        product(align_up(cuda_product_scratch(shape), Bytes{256})),
        all(product + Bytes{decodes ? shape.k * columns * size_of(shape.operands) : 0}) {}

 private:
  static std::int64_t even_columns(const GemmShape& shape) {
    const std::int64_t most = std::max(kGroup, kMostBytes / (shape.k * size_of(shape.operands)) / kGroup * kGroup);
    if (shape.n <= most) return shape.n;
    return round_up(ceil_div(shape.n, ceil_div(shape.n, most)), kGroup);
  }
};

inline Bytes cuda_block_matmul_scratch(const KernelRequest& request) { return CudaStrips(request).all; }

// A strip is decoded and multiplied, perhaps in parts that another kernel adds; and the bias is rounded.
inline std::int64_t cuda_block_matmul_launches(const KernelRequest& request) {
  const CudaStrips strips(request);
  return 3 * ceil_div(strips.shape.n, strips.columns) + 1;
}

}  // namespace plimsoll
