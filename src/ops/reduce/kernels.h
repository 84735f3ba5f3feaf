// Reductions on the CPU. The tiles of sums depend on the shape alone and are combined in ascending order, so neither threads nor
// ranges change a bit. The fp64 sums have the same bits on every instruction set. Scratch sizes are exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ceil_div.h"
#include "device/cpu/elements.h"
#include "ops/attributes.h"

namespace plimsoll::cpu {

// out [n] = the sum over the rows of x [rows, n] (the gradient of a bias); with `accumulate` the sum is added to out.
inline constexpr std::int64_t kRowTile = 64;
Bytes sum_rows_scratch(std::int64_t rows, std::int64_t n);
void sum_rows(std::int64_t rows, std::int64_t n, ConstElements x, bool accumulate, float* out, std::byte* scratch);

// The fp64 sum of squares of a flat array of fp32 or bf16, added to `before`: sums of tiles of kSumTile elements, in ascending
// order. An array in ranges gives the same bits if ranges begin at multiples of kSumTile.
inline constexpr std::int64_t kSumTile = ops::kNormTile;
// The sums of the tiles alone, one for each.
void sums_of_squares(std::int64_t n, ConstElements x, double* tiles);
constexpr std::int64_t sum_tiles(std::int64_t n) { return ceil_div(n, kSumTile); }
Bytes sum_scratch(std::int64_t n);
double sum_of_squares(std::int64_t n, ConstElements x, double before, std::byte* scratch);

// out [rows] = the sum or mean over the last axis of x [rows, n], added in fp64 and rounded once.
void reduce_last_axis(std::int64_t rows, std::int64_t n, bool mean, const float* x, float* out);

// *total += x[0], x[1], ... in that order, in fp64: any split of x into consecutive calls gives the same bits.
void sum_in_order(std::int64_t n, const float* x, double* total);

// Counts of n fp16 numbers. Subnormal numbers are below 2^-14 and not zero.
struct SmallNumbers {
  std::int64_t zeros = 0, subnormals = 0;
};
Bytes count_small_scratch(std::int64_t n);
SmallNumbers count_small(std::int64_t n, const F16* x, std::byte* scratch);

}  // namespace plimsoll::cpu
