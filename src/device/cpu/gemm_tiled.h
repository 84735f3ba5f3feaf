// Our own matrix product for processors and shapes for which oneDNN offers only implementations that hide memory. Both operands
// are packed into panels, one block of k after the other; the result is computed in register tiles. Bits depend neither on the
// number of threads nor on addresses.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace plimsoll::cpu {

struct GemmShape;

// Exact: the panels of both operands for one block of k.
Bytes tiled_gemm_scratch(const GemmShape& shape);
// No extent of the shape is zero; all buffers are dense and 64-byte aligned, do not overlap, and are the caller's. `bias` is read
// only where the shape has one, C only where it accumulates. Each element is the sum over k in ascending order, in blocks that
// the shape alone fixes.
void run_tiled_gemm(const GemmShape& shape, const float* a, const float* b, const float* bias, float* c, std::byte* scratch);

}  // namespace plimsoll::cpu
