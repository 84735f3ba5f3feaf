// The keys that queries see by order, window and segments. Blocks skip tiles before the first and after the last one that they
// see; within the others, single scores are hidden.
#pragma once

#include "ops/attention/call.cuh"

namespace plimsoll::cuda {

// The keys that the queries of one row of the batch see.
class Visibility {
 public:
  __device__ __forceinline__ Visibility(const AttentionExtents& e, std::int32_t sample)
      : window_(static_cast<unsigned>(e.window)),
        last_(e.tokens - 1),
        segments_(e.segments == nullptr ? nullptr : e.segments + static_cast<std::int64_t>(sample) * e.tokens) {}

  // Bit i is set if the query sees key + i. Tokens past the last one count as the last one.
  template <int kKeys>
  __device__ __forceinline__ unsigned keys(std::int32_t query, std::int32_t key) const {
    unsigned seen = 0;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) seen |= (static_cast<unsigned>(query - key - i) < window_ ? 1u : 0u) << i;
    if (segments_ == nullptr) return seen;
    const std::int32_t mine = segment_of(query);
#pragma unroll
    for (int i = 0; i < kKeys; ++i) seen &= ~((segment_of(key + i) != mine ? 1u : 0u) << i);
    return seen;
  }
  __device__ __forceinline__ std::int32_t segment_of(std::int32_t token) const {
    return segments_[token < last_ ? token : last_];
  }

 private:
  unsigned window_;
  std::int32_t last_;
  const std::int32_t* segments_;
};

// The largest number of a block's threads. All of them call it; shared memory has room for 32 numbers and is free afterwards.
__device__ __forceinline__ std::int32_t largest_of_block(std::int32_t x) {
  auto* of_warps = shared_memory<std::int32_t>();
  x = warp_max(x);
  if (lane_of_warp() == 0) of_warps[warp_of_block()] = x;
  __syncthreads();
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) x = of_warps[warp] > x ? of_warps[warp] : x;
  __syncthreads();
  return x;
}

struct Tokens {
  std::int32_t begin, end;
};

// The tokens of `among` from the first to the last one whose segments are between the least and the most of a tile's.
__device__ __forceinline__ Tokens within_segments(const Visibility& visible, const Tokens& tile, const Tokens& among) {
  constexpr std::int32_t kNone = INT32_MIN;
  const auto threads = static_cast<std::int32_t>(blockDim.x), thread = static_cast<std::int32_t>(threadIdx.x);
  std::int32_t most = kNone, most_of_inverse = kNone;  // ~x falls as x rises
  for (std::int32_t token = tile.begin + thread; token < tile.end; token += threads) {
    const std::int32_t segment = visible.segment_of(token);
    most = segment > most ? segment : most;
    most_of_inverse = ~segment > most_of_inverse ? ~segment : most_of_inverse;
  }
  most = largest_of_block(most);
  const std::int32_t least = ~largest_of_block(most_of_inverse);
  std::int32_t last = kNone, inverse_of_first = kNone;
#pragma unroll 4
  for (std::int32_t token = among.begin + thread; token < among.end; token += threads) {
    const std::int32_t segment = visible.segment_of(token);
    if (segment < least || segment > most) continue;
    last = token;
    inverse_of_first = ~token > inverse_of_first ? ~token : inverse_of_first;
  }
  last = largest_of_block(last);
  return {~largest_of_block(inverse_of_first), last + 1};
}

// The first key of the tiles of kKeys that some query of a block sees. All threads call it.
template <int kKeys>
__device__ __forceinline__ std::int32_t first_key(const AttentionExtents& e, std::int32_t sample, const Tokens& queries) {
  std::int32_t first = queries.begin - e.window + 1;
  first = first > 0 ? first : 0;
  if (e.segments != nullptr) first = within_segments(Visibility(e, sample), queries, {first, queries.end}).begin;
  return first / kKeys * kKeys;
}

// The end of the queries that see some key of a block.
__device__ __forceinline__ std::int32_t end_of_queries(const AttentionExtents& e, std::int32_t sample, const Tokens& keys) {
  const std::int32_t seen = keys.end - 1 + e.window, end = seen < e.tokens ? seen : e.tokens;
  return e.segments == nullptr ? end : within_segments(Visibility(e, sample), keys, {keys.begin, end}).end;
}

// The number that weights are relative to, from a row's largest score so far: -inf if it has seen no key yet, and -inf - -inf is
// NaN.
__device__ __forceinline__ float finite_top(float most) { return most == -INFINITY ? 0.0f : most; }

}  // namespace plimsoll::cuda
