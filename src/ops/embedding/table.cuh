// Loops and grids of kernels on tables of rows.
#pragma once

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

inline constexpr int kTableThreads = 256, kTableWarps = kTableThreads / kWarp;

// The rows of a table in a call; tokens of other rows are skipped.
struct TableRange {
  std::int64_t begin, count;

  __device__ __forceinline__ bool contains(std::int32_t token) const { return token >= begin && token < begin + count; }
};

// Calls f(i) for each i < n, in one thread of the grid.
template <class F>
__device__ __forceinline__ void for_items(std::int64_t n, F f) {
  for (std::int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) f(i);
}
// The same, in all threads of one warp of a row of blocks.
template <class F>
__device__ __forceinline__ void for_items_of_warps(std::int64_t n, F f) {
  for (std::int64_t i = thread_of_grid() / kWarp; i < n; i += threads_of_grid() / kWarp) f(i);
}

inline Grid table_grid(std::int64_t items) { return grid_over(items, kTableThreads, kTableThreads); }
// `strips`: number of rows of blocks; each row has its own columns.
inline Grid table_grid_of_warps(std::int64_t items, std::int64_t strips = 1) {
  Grid grid = grid_over(items, kTableThreads, kTableWarps);
  grid.blocks.y = static_cast<unsigned>(strips);
  return grid;
}

}  // namespace plimsoll::cuda
