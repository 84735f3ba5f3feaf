// Copies that move data on the CPU, fp32 and dense; input and output do not overlap. Nothing allocates.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace plimsoll::cpu {

void copy(Bytes size, const void* from, void* to);

// x [batch, rows, columns] -> y [batch, columns, rows]
void transpose(std::int64_t batch, std::int64_t rows, std::int64_t columns, const float* x, float* y);

// Axis i of y is axis axes[i] of x, whose extents are given: y's extents are extents[axes[i]]. `axes` is a permutation of 0..3.
void permute(const std::array<std::int64_t, 4>& extents, const std::array<int, 4>& axes, const float* x, float* y);

}  // namespace plimsoll::cpu
