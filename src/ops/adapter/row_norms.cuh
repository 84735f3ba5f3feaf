// The norms of the rows of W + scale B A on a GPU. Elements of W come in strips, consecutive ranges in stored order: a range of
// numbers, or scratch into which a part of a stored matrix has been decoded. The cut into strips changes no bit.
#pragma once

#include "device/cuda/kernels.cuh"
#include "ops/adapter/cuda.h"

namespace plimsoll::cuda {

struct RowNormOperands {
  CudaRowNorms shape;
  const float *a, *b;  // [rank, columns], [rows, rank]
  double* parts;       // [kParts, rows]
};

// Elements [first, last) of W.
template <class T>
struct Strip {
  const T* w;
  std::int64_t first, last;

  __device__ __forceinline__ bool has(std::int64_t element) const { return first <= element && element < last; }
  __device__ __forceinline__ float at(std::int64_t element) const { return widen(w[element - first]); }
};

// The rows or lines of W that a strip touches.
struct StripExtent {
  std::int64_t first_row, rows, first_column, columns;

  StripExtent(const CudaRowNorms& n, std::int64_t first, std::int64_t last)
      : first_row(0), rows(n.rows), first_column(0), columns(n.columns) {
    const std::int64_t line = n.inputs_first ? n.rows : n.columns;
    const std::int64_t begin = first / line, lines = (last + line - 1) / line - begin;
    (n.inputs_first ? first_column : first_row) = begin;
    (n.inputs_first ? columns : rows) = lines;
  }
};

inline constexpr int kNormThreads = 256, kNormRows = 4, kNormColumns = 4;  // of a thread: rows, and columns at a time

// The threads of a warp have one line of W at a time: the parts of a few rows, or one part of many rows.
template <bool kInputsFirst, class T>
__global__ void __launch_bounds__(kNormThreads) add_strip_kernel(RowNormOperands n, StripExtent extent, Strip<T> strip) {
  constexpr std::int64_t kParts = CudaRowNorms::kParts, kApart = kInputsFirst ? kWarp : 1;
  const std::int64_t rows = n.shape.rows, columns = n.shape.columns, rank = n.shape.rank;
  const std::int64_t warp = thread_of_grid() / kWarp, lane = lane_of_warp();
  const std::int64_t part = kInputsFirst ? warp % kParts : lane;
  const std::int64_t first_row = extent.first_row + (kInputsFirst ? warp / kParts * kWarp * kNormRows + lane : warp * kNormRows);
  const std::int64_t end_row = extent.first_row + extent.rows, end_column = extent.first_column + extent.columns;
  if (part >= columns || first_row >= end_row) return;
  const auto element = [&](std::int64_t row, std::int64_t column) {
    return kInputsFirst ? column * rows + row : row * columns + column;
  };
  std::int64_t row[kNormRows];
  double sum[kNormRows];
#pragma unroll
  for (int r = 0; r < kNormRows; ++r) {
    const std::int64_t mine = first_row + r * kApart;
    row[r] = mine < end_row ? mine : first_row;
    sum[r] = element(row[r], part) < strip.first ? n.parts[part * rows + row[r]] : 0.0;
  }
  for (std::int64_t begin = extent.first_column / kParts * kParts + part; begin < end_column; begin += kNormColumns * kParts) {
    std::int64_t column[kNormColumns];
    float change[kNormRows][kNormColumns] = {};
#pragma unroll
    for (int c = 0; c < kNormColumns; ++c) column[c] = begin + c * kParts < columns ? begin + c * kParts : begin;
    for (std::int64_t k = 0; k < rank; ++k) {
      float a[kNormColumns];
#pragma unroll
      for (int c = 0; c < kNormColumns; ++c) a[c] = n.a[k * columns + column[c]];
#pragma unroll
      for (int r = 0; r < kNormRows; ++r) {
        const float b = n.b[row[r] * rank + k];
#pragma unroll
        for (int c = 0; c < kNormColumns; ++c) change[r][c] += b * a[c];
      }
    }
#pragma unroll
    for (int c = 0; c < kNormColumns; ++c) {
      if (begin + c * kParts >= columns) continue;
#pragma unroll
      for (int r = 0; r < kNormRows; ++r) {
        const std::int64_t at = element(row[r], column[c]);
        if (!strip.has(at)) continue;
        const auto changed = static_cast<double>(strip.at(at) + n.shape.scale * change[r][c]);
        sum[r] += changed * changed;
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kNormRows; ++r) {
    if (first_row + r * kApart < end_row) n.parts[part * rows + row[r]] = sum[r];
  }
}

static __global__ void __launch_bounds__(kNormThreads) end_row_norms_kernel(RowNormOperands n, float* norms) {
  const std::int64_t parts = n.shape.columns < CudaRowNorms::kParts ? n.shape.columns : CudaRowNorms::kParts;
  for (std::int64_t row = thread_of_grid(); row < n.shape.rows; row += threads_of_grid()) {
    double sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += n.parts[part * n.shape.rows + row];
    norms[row] = static_cast<float>(sqrt(sum));
  }
}

// Called for all strips in order.
template <class T>
void add_strip(const RowNormOperands& n, const Strip<T>& strip, void* stream) {
  const StripExtent extent(n.shape, strip.first, strip.last);
  const bool inputs_first = n.shape.inputs_first;
  const std::int64_t together = inputs_first ? kNormRows * kWarp : kNormRows;
  const std::int64_t warps = (extent.rows + together - 1) / together * (inputs_first ? CudaRowNorms::kParts : 1);
  const auto blocks = static_cast<unsigned>((warps * kWarp + kNormThreads - 1) / kNormThreads);
  launch(inputs_first ? add_strip_kernel<true, T> : add_strip_kernel<false, T>, {{blocks}, {kNormThreads}}, stream, n, extent,
         strip);
}

// Called after the last strip.
inline void end_row_norms(const RowNormOperands& n, float* norms, void* stream) {
  launch(end_row_norms_kernel, grid_over(n.shape.rows, kNormThreads, kNormThreads), stream, n, norms);
}

}  // namespace plimsoll::cuda
