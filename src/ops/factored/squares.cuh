// The sums of squares of a matrix, over its rows and over its columns, in one pass on a GPU, range by range (factored/cuda.h).
#pragma once

#include "ops/factored/cuda.h"
#include "ops/update/taken.cuh"
#include "ops/update/update.h"

namespace plimsoll::cuda {

inline constexpr int kSquaresThreads = 128;

// A gradient with the source of its scale.
template <class G>
struct Gradient {
  const G* numbers;          // the range's elements
  const float* coefficient;  // null: none
  double clip_value;

  __device__ __forceinline__ Taken taken() const { return Taken::of(coefficient == nullptr ? 1.0f : *coefficient, clip_value); }
};

// The blend by which variances move towards the mean of squares.
__device__ __forceinline__ double blend_of(const double* scalars) { return pow(scalars[ops::kUpdate], -0.8); }

// The pass of update_variance over a range of a matrix.
template <class G>
struct Squares {
  std::int64_t rows, columns, begin, end;
  std::int64_t tile, strips, first_tile, units;  // a unit: a strip of a tile
  Gradient<G> gradient;
  const double* scalars;
  double* blend;
  float *row_sums, *cuts, *column_sums;
};

// Rows whose loads are in flight at a time.
inline constexpr int kRowsAhead = 8;

// A warp's unit. `kPacked`: rows begin at multiples of four elements, and a lane has adjacent columns; else every 32nd column.
template <bool kPacked, class G>
class Unit {
 public:
  __device__ __forceinline__ Unit(const Squares<G>& squares, std::int64_t unit)
      : s_(squares),
        taken_(squares.gradient.taken()),
        tile_(squares.first_tile + unit / squares.strips),
        strip_(unit % squares.strips),
        column_(strip_ * kCudaStrip + (kPacked ? 4 : 1) * lane_of_warp()) {}

  __device__ __forceinline__ void run() {
    const std::int64_t from = tile_ * s_.tile, to = from + s_.tile < s_.rows ? from + s_.tile : s_.rows;
    go_on();
    for (std::int64_t row = from; row < to;) {
      if (row + kRowsAhead <= to && inside(row) && inside(row + kRowsAhead - 1)) {
        add_rows(row);
        row += kRowsAhead;
      } else {
        add_part(row++);
      }
    }
    leave();
  }

 private:
  __device__ __forceinline__ std::int64_t column(int e) const { return column_ + (kPacked ? 1 : kWarp) * e; }
  // The elements at which the strip begins and ends in a row.
  __device__ __forceinline__ std::int64_t begin_in(std::int64_t row) const { return row * s_.columns + strip_ * kCudaStrip; }
  __device__ __forceinline__ std::int64_t end_in(std::int64_t row) const {
    const std::int64_t end = (strip_ + 1) * kCudaStrip;
    return row * s_.columns + (end < s_.columns ? end : s_.columns);
  }
  __device__ __forceinline__ bool inside(std::int64_t row) const { return begin_in(row) >= s_.begin && end_in(row) <= s_.end; }

  // Begins with the sums of earlier ranges, for columns with a row in them.
  __device__ __forceinline__ void go_on() {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const bool more = column(e) < s_.columns && tile_ * s_.tile * s_.columns + column(e) < s_.begin;
      sums_[e] = more ? s_.column_sums[tile_ * s_.columns + column(e)] : 0.0f;
    }
  }
  __device__ __forceinline__ void leave() const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (column(e) < s_.columns) s_.column_sums[tile_ * s_.columns + column(e)] = sums_[e];
    }
  }

  __device__ __forceinline__ Four<G> load(std::int64_t row) const {
    const G* from = s_.gradient.numbers + (row * s_.columns - s_.begin);
    Four<G> four{};
    if constexpr (kPacked) {
      if (column_ < s_.columns) four = *reinterpret_cast<const Four<G>*>(from + column_);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (column(e) < s_.columns) four.at[e] = from[column(e)];
      }
    }
    return four;
  }

  // Adds an element of a row to the sum of its column and to the lane's sum of the row.
  __device__ __forceinline__ void add(float g, int e, float& of_row) {
    const float x = taken_(g), square = __fmul_rn(x, x);
    sums_[e] += square;
    of_row += square;
  }
  __device__ __forceinline__ void close(std::int64_t row, float of_lane) const {
    const float sum = warp_sum(of_lane);
    if (lane_of_warp() == 0) s_.row_sums[row * s_.strips + strip_] = sum;
  }

  __device__ __forceinline__ void add_rows(std::int64_t row) {
    Four<G> g[kRowsAhead];
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) g[i] = load(row + i);
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      float of_lane = 0;
#pragma unroll
      for (int e = 0; e < 4; ++e) add(widen(g[i].at[e]), e, of_lane);
      close(row + i, of_lane);
    }
  }

  // Adds the part of a row's strip within the range. The sums of lanes at the range's end are kept for the next range.
  __device__ __forceinline__ void add_part(std::int64_t row) {
    if (end_in(row) <= s_.begin || begin_in(row) >= s_.end) return;
    float of_lane = begin_in(row) < s_.begin ? *cut_at(s_.begin) : 0.0f;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const std::int64_t at = row * s_.columns + column(e);
      if (column(e) < s_.columns && at >= s_.begin && at < s_.end) add(widen(s_.gradient.numbers[at - s_.begin]), e, of_lane);
    }
    if (end_in(row) > s_.end) {
      *cut_at(s_.end) = of_lane;
    } else {
      close(row, of_lane);
    }
  }
  __device__ __forceinline__ float* cut_at(std::int64_t end) const {
    return s_.cuts + (end / ops::kNormTile - 1) * kWarp + lane_of_warp();
  }

  const Squares<G>& s_;
  Taken taken_;
  std::int64_t tile_, strip_, column_;
  float sums_[4];
};

template <bool kPacked, class G>
__global__ void __launch_bounds__(kSquaresThreads) squares_kernel(const __grid_constant__ Squares<G> squares) {
  if (thread_of_grid() == 0) *squares.blend = blend_of(squares.scalars);
  const std::int64_t unit = thread_of_grid() / kWarp;
  if (unit < squares.units) Unit<kPacked, G>(squares, unit).run();
}

}  // namespace plimsoll::cuda
