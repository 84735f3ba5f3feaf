// Our own matrix product. A task is a band of rows and a strip of columns of C. It goes through k in blocks: it packs the block
// of B into panels and multiplies tiles of A's rows with them in registers, while the memory of the next block is fetched. Bits
// depend neither on the number of threads nor on addresses.
//
//            k                n                  strip
//        +-------+        +---+---+          +---+---+
//      m |  A    |  x   k |   | B |  =     m |   |///| band
//        |///|   |        |   |///| depth    |   |   |
//        +-------+        +---+---+          +---+---+
//         depth            strip
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "device/cpu/stored_matrix.h"
#include "tensor/gemm_shape.h"

namespace plimsoll::cpu {

// The exact bytes: for each participating thread a block of B and, for a transposed A, a block of one panel's rows of A.
Bytes tiled_gemm_scratch(const GemmShape& shape, int threads);
// No extent of the shape is zero. All buffers belong to the caller; they are dense, 64-byte aligned and do not overlap. `bias` is
// read only if the shape has one, C only if it accumulates. Each element is the sum over k in ascending order, in blocks that
// depend on the shape alone.
void run_tiled_gemm(const GemmShape& shape, int threads, const float* a, const float* b, const float* bias, float* c,
                    std::byte* scratch);

// The same for a B that is decoded while it is packed, with the bits of the product of its decoded elements. A is not transposed,
// and there is no batch.
Bytes decoding_gemm_scratch(const GemmShape& shape, int threads);
void run_decoding_gemm(const GemmShape& shape, int threads, const float* a, const StoredMatrix& matrix, const std::byte* b,
                       const float* bias, float* c, std::byte* scratch);

}  // namespace plimsoll::cpu
