// Slots of the rows of a table, in the order of their first positions. A minimum finds the first position of each row without a
// slot, and one block counts those positions in order.
#pragma once

#include "ops/embedding/table.cuh"

namespace plimsoll::cuda {

struct TokenSlots {
  std::int64_t tokens, rows, slots;
  std::int64_t padding;  // the token without a slot; -1: none
  const std::int32_t* which;
  std::int32_t *first, *map, *out;  // map: slot + 1 of each row, or 0; last the number of slots
};

// Resets the first positions of the tokens' rows.
static __global__ void __launch_bounds__(kTableThreads) forget_firsts_kernel(TokenSlots s, bool begins) {
  if (begins) for_items(s.rows + 1, [&](std::int64_t i) { s.map[i] = 0; });
  for_items(s.tokens, [&](std::int64_t i) { s.first[s.which[i]] = static_cast<std::int32_t>(s.tokens); });
}

static __global__ void __launch_bounds__(kTableThreads) find_firsts_kernel(TokenSlots s) {
  for_items(s.tokens, [&](std::int64_t i) {
    const std::int32_t row = s.which[i];
    if (s.map[row] == 0 && row != s.padding) atomicMin(s.first + row, static_cast<std::int32_t>(i));
  });
}

static __global__ void __launch_bounds__(kTableThreads) read_slots_kernel(TokenSlots s) {
  for_items(s.tokens, [&](std::int64_t i) { s.out[i] = s.map[s.which[i]] - 1; });
}

// The sum over this lane and those before it.
__device__ __forceinline__ std::int32_t sum_up_to_lane(std::int32_t value) {
#pragma unroll
  for (unsigned by = 1; by < kWarp; by *= 2) {
    const std::int32_t before = __shfl_sync(kAllLanes, value, (lane_of_warp() - by) % kWarp);
    if (lane_of_warp() >= by) value += before;
  }
  return value;
}

// A thread has several consecutive positions. Slots past the last one are not given.
static __global__ void __launch_bounds__(kWarp* kWarp) give_slots_kernel(TokenSlots s) {
  constexpr int kPositions = 8;
  __shared__ std::int32_t of_warps[kWarp];
  std::int32_t used = s.map[s.rows];
  for (std::int64_t base = 0; base < s.tokens; base += kPositions * kWarp * kWarp) {
    const std::int64_t begin = base + static_cast<std::int64_t>(threadIdx.x) * kPositions;
    std::int32_t rows[kPositions], mine = 0;
#pragma unroll
    for (int k = 0; k < kPositions; ++k) {
      rows[k] = begin + k < s.tokens ? s.which[begin + k] : -1;
      if (rows[k] >= 0 && s.first[rows[k]] != begin + k) rows[k] = -1;
      mine += rows[k] >= 0;
    }
    const std::int32_t up_to_mine = sum_up_to_lane(mine);
    if (lane_of_warp() == kWarp - 1) of_warps[warp_of_block()] = up_to_mine;
    __syncthreads();
    const std::int32_t of_lane = of_warps[lane_of_warp()], up_to_lane = sum_up_to_lane(of_lane);
    std::int32_t slot = used + __shfl_sync(kAllLanes, up_to_lane - of_lane, warp_of_block()) + up_to_mine - mine;
#pragma unroll
    for (int k = 0; k < kPositions; ++k) {
      if (rows[k] >= 0 && ++slot <= s.slots) s.map[rows[k]] = slot;
    }
    used += __shfl_sync(kAllLanes, up_to_lane, kWarp - 1);
    __syncthreads();
  }
  if (threadIdx.x == 0) s.map[s.rows] = used < s.slots ? used : static_cast<std::int32_t>(s.slots);
}

inline void give_slots(const TokenSlots& s, bool begins, void* stream) {
  launch(forget_firsts_kernel, table_grid(begins ? s.rows + 1 : s.tokens), stream, s, begins);
  launch(find_firsts_kernel, table_grid(s.tokens), stream, s);
  launch(give_slots_kernel, {{1}, {kWarp * kWarp}}, stream, s);
  launch(read_slots_kernel, table_grid(s.tokens), stream, s);
}

}  // namespace plimsoll::cuda
