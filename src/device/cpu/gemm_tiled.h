// Our own matrix product. C is cut into tasks of rows and a strip of columns; a task walks k in blocks, packs each block of B
// into panels and multiplies rows of A with them in register tiles, while what it packs next is fetched. Bits depend neither on
// the number of threads nor on addresses.
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "device/cpu/stored_matrix.h"
#include "tensor/gemm_shape.h"

namespace plimsoll::cpu {

// Exact: for each thread that takes part, a block of B and, where A is transposed, of one tile's rows of A.
Bytes tiled_gemm_scratch(const GemmShape& shape, int threads);
// No extent of the shape is zero; all buffers are dense and 64-byte aligned, do not overlap, and are the caller's. `bias` is read
// only where the shape has one, C only where it accumulates. Each element is the sum over k in ascending order, in blocks that
// the shape alone fixes.
void run_tiled_gemm(const GemmShape& shape, int threads, const float* a, const float* b, const float* bias, float* c,
                    std::byte* scratch);

// The same of a B that is decoded while it is packed: the bits are those of the product with its elements as fp32. A is not
// transposed, and there is no batch.
Bytes decoding_gemm_scratch(const GemmShape& shape, int threads);
void run_decoding_gemm(const GemmShape& shape, int threads, const float* a, const StoredMatrix& matrix, const std::byte* b,
                       const float* bias, float* c, std::byte* scratch);

}  // namespace plimsoll::cpu
