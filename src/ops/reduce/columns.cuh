// The second stage of sums over rows: adds partial sums of groups of rows column by column. The groups depend on the shape alone.
#pragma once

#include "ops/reduce/row.cuh"

namespace plimsoll::cuda {

// The destination of the sums of `columns` columns; the second half may have another one.
struct ColumnSums {
  float *first, *second;  // second null: `first` takes all columns
  bool add;               // adds to the present content
};

inline constexpr int kColumnWarps = 16;

// A block has 32 columns. Warp w adds groups w, w + 16 ... in this order; then the sums of the warps are added in order.
static __global__ void __launch_bounds__(kColumnWarps* kWarp)
    add_groups_kernel(std::int64_t groups, std::int64_t columns, const float* partials, ColumnSums sums) {
  __shared__ float of_warps[kColumnWarps][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane_of_warp();
  float sum = 0;
  if (column < columns) {
    load_ahead<16>(
        static_cast<int>(warp_of_block()), static_cast<int>(groups), kColumnWarps,
        [&](std::int64_t group) { return partials[group * columns + column]; }, [&](int, float more) { sum += more; });
  }
  of_warps[warp_of_block()][lane_of_warp()] = sum;
  __syncthreads();
  if (warp_of_block() != 0 || column >= columns) return;
#pragma unroll
  for (int w = 1; w < kColumnWarps; ++w) sum += of_warps[w][lane_of_warp()];
  const std::int64_t half = columns / 2;
  float* const to = sums.second == nullptr || column < half ? sums.first + column : sums.second + (column - half);
  *to = sums.add ? *to + sum : sum;
}

inline void add_groups(std::int64_t groups, std::int64_t columns, const float* partials, const ColumnSums& sums, void* stream) {
  launch(add_groups_kernel, {{static_cast<unsigned>((columns + kWarp - 1) / kWarp)}, {kColumnWarps * kWarp}}, stream, groups,
         columns, partials, sums);
}

}  // namespace plimsoll::cuda
