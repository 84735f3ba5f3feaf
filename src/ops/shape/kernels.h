// Copies that move data on the CPU, fp32 and dense; input and output do not overlap. Nothing allocates.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace plimsoll::cpu {

void copy(Bytes size, const void* from, void* to);

// x [batch, rows, columns] -> y [batch, columns, rows]
void transpose(std::int64_t batch, std::int64_t rows, std::int64_t columns, const float* x, float* y);

}  // namespace plimsoll::cpu
