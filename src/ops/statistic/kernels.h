// Statistics of rows on the CPU: x [rows, n], dense. Columns are independent and rows are added in order, so neither threads nor
// the cut of rows into calls change a bit. No scratch.
#pragma once

#include <cstdint>

#include "device/cpu/elements.h"

namespace plimsoll::cpu {

struct StatisticRows {
  std::int64_t rows, n;
};

// y = x - mean; y may be x.
void subtract_mean(const StatisticRows& shape, const float* x, const float* mean, float* y);

// sums [n + 1] += x - mean for each row, and last the number of rows; without `add` sums begin as zeros.
void add_deviations(const StatisticRows& shape, ConstElements x, const float* mean, bool add, double* sums);

// mean += blend sums / sums[n], for finite sums.
void move_mean(std::int64_t n, const double* sums, double blend, float* mean);

// average += blend (x - average), or x itself.
void move_average(std::int64_t n, const float* x, double blend, bool first, float* average);

// most = max(most, |x|) over the rows.
void largest_magnitude(const StatisticRows& shape, ConstElements x, float* most);

}  // namespace plimsoll::cpu
