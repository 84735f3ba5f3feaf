// Sums over a flat array (ops/update/cuda.h): of a block's tile, and of all tiles. Orders depend on the number of elements alone.
#pragma once

#include <algorithm>

#include "device/cuda/kernels.cuh"
#include "ops/update/cuda.h"

namespace plimsoll::cuda {

inline constexpr int kTileThreads = 256;
inline constexpr int kMostAdding = 1024;  // threads of the block that adds up tiles

template <int kSums>
struct alignas(kSums * sizeof(double)) Sums {
  double of[kSums];
};

// The sums over the threads of a block, in the first thread: in T within a warp, in fp64 over the warps.
template <int kSums, class T>
__device__ __forceinline__ Sums<kSums> sums_of_block(const T (&mine)[kSums]) {
  constexpr int kWarps = kTileThreads / kWarp;
  __shared__ double of_warps[kSums][kWarps];
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    const T sum = warp_sum(mine[s]);
    if (lane_of_warp() == 0) of_warps[s][warp_of_block()] = sum;
  }
  __syncthreads();
  Sums<kSums> sums{};
  if (threadIdx.x > 0) return sums;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
#pragma unroll
    for (int s = 0; s < kSums; ++s) sums.of[s] += of_warps[s][warp];
  }
  return sums;
}

template <int kSums>
__global__ void __launch_bounds__(kMostAdding)
    add_tiles_kernel(std::int64_t tiles, const Sums<kSums>* of_tiles, Sums<kSums>* sums) {
  Sums<kSums> mine{};
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < tiles; i += blockDim.x) {
    const Sums<kSums> tile = of_tiles[i];
#pragma unroll
    for (int s = 0; s < kSums; ++s) mine.of[s] += tile.of[s];
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) mine.of[s] = block_sum(mine.of[s]);
  if (threadIdx.x == 0) *sums = mine;
}

// The places of the sums of a call's tiles, and of their totals.
template <int kSums>
class TileSums {
 public:
  TileSums(std::int64_t elements, std::int64_t tile) : elements_(elements), tile_(tile), tiles_(ceil_div(elements, tile)) {}

  // The number of elements in a call's range, or of all elements.
  std::int64_t count(const KernelCall& call) const { return call.range.whole() ? elements_ : call.range.elements; }
  Grid grid(const KernelCall& call) const {
    return {{static_cast<unsigned>(ceil_div(count(call), tile_)), 1, 1}, {kTileThreads, 1, 1}, 0};
  }
  Sums<kSums>* of_tiles(const KernelCall& call, std::byte* scratch, double* sums) const {
    return reinterpret_cast<Sums<kSums>*>(tiles_ == 1 ? reinterpret_cast<std::byte*>(sums) : scratch) + call.range.begin / tile_;
  }
  // Launched after the kernel of a call.
  void add(const KernelCall& call, const std::byte* scratch, double* sums) const {
    if (tiles_ == 1 || call.range.begin + count(call) < elements_) return;
    const auto threads = static_cast<unsigned>(std::min<std::int64_t>(kMostAdding, round_up(tiles_, kWarp)));
    launch(add_tiles_kernel<kSums>, {{1, 1, 1}, {threads, 1, 1}, 0}, call.stream, tiles_,
           reinterpret_cast<const Sums<kSums>*>(scratch), reinterpret_cast<Sums<kSums>*>(sums));
  }

 private:
  std::int64_t elements_, tile_, tiles_;
};

}  // namespace plimsoll::cuda
