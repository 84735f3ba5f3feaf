// Our own matrix product for processors and shapes for which oneDNN offers only implementations that hide memory. Both operands
// are packed into panels, one block of k after the other; the result is computed in register tiles. Bits depend neither on the
// number of threads nor on addresses.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace plimsoll::cpu {

struct GemmShape;

Bytes tiled_gemm_scratch(const GemmShape& shape);
void run_tiled_gemm(const GemmShape& shape, const float* a, const float* b, const float* bias, float* c, std::byte* scratch);

}  // namespace plimsoll::cpu
