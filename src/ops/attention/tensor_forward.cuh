// Attention on tensor cores (Dao, "FlashAttention-2", 2023). A block has 128 queries of a head, 32 for each warp, and goes over
// the tiles of keys that they see, in ascending order. Tiles of keys and values pass through two stages of shared memory; scores,
// softmax and output stay in registers.
#pragma once

#include "ops/attention/call.cuh"
#include "ops/attention/tensor_tiles.cuh"

namespace plimsoll::cuda {

struct TensorForward {
  AttentionExtents extents;
  AttentionDropout dropout;
  BlockOrder order;
  OfOperands<const void*> in;
  void* out;
  bool wide;  // the output is fp32
  float* lse;
};

// With heads of 64, two warpgroups have 64 queries each (wgmma.cuh).
template <int kHead>
struct ForwardTiles {
  static constexpr bool kGroups = kHead == 64;
  static constexpr int kM = kGroups ? 1 : 2, kOfWarp = 16 * kM, kWarps = kGroups ? 8 : 4, kThreads = kWarps * kWarp;
  static constexpr int kTogether = kGroups ? kGroupRows : kOfWarp;
  static constexpr int kQueries = kWarps * kOfWarp, kKeys = 64, kN = kKeys / 8;
  static constexpr std::size_t kSharedBytes = (kQueries + 2 * 2 * kKeys) * kHead * 2;
  using Place = TilePlace<kQueries, kOfWarp, kTogether, true>;
};

// The results of a warp's queries from the keys so far; the sums of a lane are those of its own keys.
template <int kHead>
struct Gathered {
  static constexpr int kM = ForwardTiles<kHead>::kM;
  float out[kM][kHead / 8][4];
  float most[kM][2], sum[kM][2];

  __device__ __forceinline__ void clear() {
    set_zero(out);
#pragma unroll
    for (int i = 0; i < kM; ++i) {
      most[i][0] = most[i][1] = -INFINITY;
      sum[i][0] = sum[i][1] = 0;
    }
  }
};

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// Turns scores into weights relative to the largest score so far; `scale` turns scores into exponents of two.
template <int kHead, int kM, int kN>
__device__ __forceinline__ void weigh(float (&scores)[kM][kN][4], Gathered<kHead>& gathered, float scale) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = scores[i][0][2 * r];
#pragma unroll
      for (int j = 0; j < kN; ++j) most = fmaxf(most, fmaxf(scores[i][j][2 * r], scores[i][j][2 * r + 1]));
      most = fmaxf(gathered.most[i][r], quad_max(most));
      const float top = finite_top(most), shrink = fast_exp2((gathered.most[i][r] - top) * scale), base = top * scale;
      float sum = gathered.sum[i][r] * shrink;
#pragma unroll
      for (int j = 0; j < kN; j += 2) {
        float weights[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& score = scores[i][j + e / 2][2 * r + e % 2];
          weights[e] = score = fast_exp2(fmaf(score, scale, -base));
        }
        sum += (weights[0] + weights[1]) + (weights[2] + weights[3]);
      }
      gathered.most[i][r] = most;
      gathered.sum[i][r] = sum;
#pragma unroll
      for (int j = 0; j < kHead / 8; ++j) gathered.out[i][j][2 * r] *= shrink, gathered.out[i][j][2 * r + 1] *= shrink;
    }
  }
}

template <int kM, int kN>
__device__ __forceinline__ void drop_weights(float (&weights)[kM][kN][4], const unsigned (&kept)[kM]) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if ((kept[i] >> (e / 2 * 16 + 2 * j + e % 2) & 1) == 0) weights[i][j][e] = 0;
      }
    }
  }
}

// Adds the sums of the four lanes of a row and divides the output by them.
template <class T, int kHead>
__device__ __forceinline__ void write_forward(const TensorForward& call, Gathered<kHead>& gathered, T* own, std::int32_t any_head,
                                              std::int32_t query, float factor) {
  const AttentionExtents& e = call.extents;
  const HeadRows head(e, any_head);
  const int rows = e.tokens - query, lane = static_cast<int>(lane_of_warp());
  if (rows <= 0) return;
#pragma unroll
  for (int i = 0; i < Gathered<kHead>::kM; ++i) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = quad_sum(gathered.sum[i][r]), share = factor / sum;
      const int row = 16 * i + 8 * r + lane / 4;
      if (lane % 4 == 0 && row < rows) call.lse[head.sums + query + row] = gathered.most[i][r] * e.scale + logf(sum);
#pragma unroll
      for (int j = 0; j < kHead / 8; ++j) gathered.out[i][j][2 * r] *= share, gathered.out[i][j][2 * r + 1] *= share;
    }
  }
  write_rows<kHead>(gathered.out, own, {call.out, head.out_at(e, query), e.width(), rows, call.wide}, InOrder{});
}

template <class T, int kHead, bool kDropout>
__global__ void __launch_bounds__(ForwardTiles<kHead>::kThreads, ForwardTiles<kHead>::kGroups&& kDropout ? 1 : 2)
    attention_kernel(const TensorForward call) {
  using Tiles = ForwardTiles<kHead>;
  const AttentionExtents& e = call.extents;
  const typename Tiles::Place at(call.order);
  const HeadRows head(e, at.head);
  T* queries = shared_memory<T>();
  T* own = queries + (at.mine - at.begin) * kHead;
  const std::int32_t first = first_key<Tiles::kKeys>(e, at.head / e.heads, at.tokens(e)), end = at.tokens(e).end;
  KeyWalk<T, Tiles::kKeys, kHead, Tiles::kThreads> walk(e, queries + Tiles::kQueries * kHead, head, first);
  copy_rows<Tiles::kQueries, kHead, Tiles::kThreads, InOrder>(
      queries, static_cast<const T*>(call.in.queries) + head.query_at(e, at.begin), e.query_stride, e.tokens - at.begin);
  walk.copy(e, call.in, first);
  commit_copies();
  Gathered<kHead> gathered;
  gathered.clear();
#pragma unroll 1
  for (std::int32_t key = first; key < end; key += Tiles::kKeys) {
    wait_for_copies<0>();
    show_to_products();
    __syncthreads();  // the other stage has been read by all, too
    if (key + Tiles::kKeys < end) walk.copy(e, call.in, key + Tiles::kKeys);
    commit_copies();
    const KeysAndQueries<Tiles::kKeys, Tiles::kOfWarp, Tiles::kTogether> tile{key, at.mine, at.together};
    if (tile.hidden(e)) continue;
    const T* keys = walk.keys_at(key);
    unsigned kept[Tiles::kM], seen[Tiles::kM] = {};
    if constexpr (kDropout)
      keep_columns<Tiles::kM, Tiles::kN>(kept, HeadMask(e, call.dropout, computed_here(at.head)), at.mine, key);
    if (tile.masked(e)) see_columns<Tiles::kM, Tiles::kN>(seen, Visibility(e, computed_here(at.head) / e.heads), at.mine, key);
    float scores[Tiles::kM][Tiles::kN][4];
    if constexpr (Tiles::kGroups) {
      multiply_rows_together<T>(scores, {queries + (at.together - at.begin) * kHead, own}, keys);
    } else {
      multiply_rows<kHead, 4>(scores, own, keys);
    }
    tile.hide(e, scores, seen);
    weigh<kHead>(scores, gathered, e.scale * kLog2E);
    if constexpr (kDropout) drop_weights(scores, kept);
    Pair weights[Tiles::kM][Tiles::kN][2];
    round_to_pairs<T>(scores, weights);
    if constexpr (Tiles::kGroups) {
      multiply_pairs_together(gathered.out, weights, keys + Tiles::kKeys * kHead);
    } else if (apart(call.order)) {
      multiply_pairs<kHead>(gathered.out, weights, keys + Tiles::kKeys * kHead);
    }
  }
  const typename Tiles::Place to(call.order);
  if constexpr (Tiles::kGroups) __syncthreads();  // rows of a warpgroup have been read by all of it
  write_forward<T>(call, gathered, queries + (to.mine - to.begin) * kHead, to.head, to.mine,
                   kDropout ? call.dropout.rule.keep_factor : 1.0f);
}

}  // namespace plimsoll::cuda
