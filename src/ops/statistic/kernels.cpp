#include "ops/statistic/kernels.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "device/cpu/parallel.h"

namespace plimsoll::cpu {
namespace {

constexpr std::int64_t kColumns = 512, kElements = 1 << 14;

float wide(float x) { return x; }
float wide(std::uint16_t x) { return widen_bf16(x); }
float wide(F16 x) { return widen_f16(static_cast<std::uint16_t>(x)); }

// Calls body(row of x, begin, end) for all rows in order, for a range of columns [begin, end) at a time.
template <class Body>
void for_columns(const StatisticRows& shape, ConstElements x, Body body) {
  with_type(x.type, [&]<class T>(T) {
    parallel_for(ceil_div(shape.n, kColumns), [&](std::int64_t tile) {
      const std::int64_t begin = tile * kColumns, end = std::min(shape.n, begin + kColumns);
      for (std::int64_t row = 0; row < shape.rows; ++row) body(x.as<T>() + row * shape.n, begin, end);
    });
  });
}

}  // namespace

void subtract_mean(const StatisticRows& shape, const float* x, const float* mean, float* y) {
  const std::int64_t rows = std::max<std::int64_t>(1, kElements / shape.n);
  parallel_for(ceil_div(shape.rows, rows), [&](std::int64_t tile) {
    for (std::int64_t row = tile * rows; row < std::min(shape.rows, (tile + 1) * rows); ++row) {
      for (std::int64_t i = 0; i < shape.n; ++i) y[row * shape.n + i] = x[row * shape.n + i] - mean[i];
    }
  });
}

void add_deviations(const StatisticRows& shape, ConstElements x, const float* mean, bool add, double* sums) {
  if (!add) std::fill_n(sums, shape.n + 1, 0.0);
  for_columns(shape, x, [&](const auto* row, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) sums[i] += static_cast<double>(wide(row[i])) - static_cast<double>(mean[i]);
  });
  sums[shape.n] += static_cast<double>(shape.rows);
}

void move_mean(std::int64_t n, const double* sums, double blend, float* mean) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double step = blend * (sums[i] / sums[n]);
    if (std::isfinite(step)) mean[i] = static_cast<float>(static_cast<double>(mean[i]) + step);
  }
}

void move_average(std::int64_t n, const float* x, double blend, bool first, float* average) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double before = average[i], step = blend * (static_cast<double>(x[i]) - before);
    average[i] = first ? x[i] : static_cast<float>(before + step);
  }
}

void largest_magnitude(const StatisticRows& shape, ConstElements x, float* most) {
  for_columns(shape, x, [&](const auto* row, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float magnitude = std::abs(wide(row[i]));
      most[i] = magnitude > most[i] ? magnitude : most[i];
    }
  });
}

}  // namespace plimsoll::cpu
