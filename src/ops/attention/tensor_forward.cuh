// Attention on tensor cores (Dao, "FlashAttention-2", 2023). A block has 128 queries of a head, 64 for each of two warpgroups,
// and goes over the tiles of keys that they see, in ascending order. Tiles of keys and values pass through two stages of shared
// memory; scores, softmax and output stay in registers.
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

template <int kHead>
struct ForwardTiles {
  static constexpr int kM = 1, kWarps = 8, kThreads = kWarps * kWarp;
  static constexpr int kQueries = kWarps * kWarpRows, kKeys = 64, kN = kKeys / 8;
  static constexpr std::size_t kSharedBytes = (kQueries + 2 * 2 * kKeys) * kHead * 2;
  using Place = TilePlace<kQueries, true>;

  static constexpr int blocks(bool dropout) { return kHead == 128 || dropout ? 1 : 2; }
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

// Turns scores into weights relative to the largest score so far; `scale` turns scores into exponents of two. The output of the
// keys before is to be multiplied by `shrink`.
template <int kHead, int kN>
__device__ __forceinline__ void weigh(float (&scores)[1][kN][4], Gathered<kHead>& gathered, float (&shrink)[2], float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = scores[0][0][2 * r];
#pragma unroll
    for (int j = 0; j < kN; ++j) most = fmaxf(most, fmaxf(scores[0][j][2 * r], scores[0][j][2 * r + 1]));
    most = fmaxf(gathered.most[0][r], quad_max(most));
    const float top = finite_top(most), base = top * scale;
    shrink[r] = fast_exp2((gathered.most[0][r] - top) * scale);
    float sum = gathered.sum[0][r] * shrink[r];
#pragma unroll
    for (int j = 0; j < kN; j += 2) {
      float weights[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& score = scores[0][j + e / 2][2 * r + e % 2];
        weights[e] = score = fast_exp2(fmaf(score, scale, -base));
      }
      sum += (weights[0] + weights[1]) + (weights[2] + weights[3]);
    }
    gathered.most[0][r] = most;
    gathered.sum[0][r] = sum;
  }
}

template <int kHead>
__device__ __forceinline__ void multiply_output(Gathered<kHead>& gathered, const float (&factors)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j) gathered.out[0][j][2 * r] *= factors[r], gathered.out[0][j][2 * r + 1] *= factors[r];
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
  float shares[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float sum = quad_sum(gathered.sum[0][r]);
    shares[r] = factor / sum;
    const int row = 8 * r + lane / 4;
    if (lane % 4 == 0 && row < rows) call.lse[head.sums + query + row] = gathered.most[0][r] * e.scale + logf(sum);
  }
  multiply_output(gathered, shares);
  write_rows<kHead, ForwardTiles<kHead>::kQueries>(gathered.out, own,
                                                   {call.out, head.out_at(e, query), e.width(), rows, call.wide}, InOrder{});
}

// The part of a block in a tile of keys: its scores, and their weights.
template <class T, int kHead, bool kDropout>
struct ForwardTile {
  using Tiles = ForwardTiles<kHead>;
  KeysAndQueries<Tiles::kKeys> place;
  unsigned kept[Tiles::kM], seen[Tiles::kM] = {};
  float scores[Tiles::kM][Tiles::kN][4], shrink[2];

  __device__ __forceinline__ ForwardTile(const typename Tiles::Place& at, std::int32_t key) : place{key, at.mine, at.together} {}

  // Computed before the scores, while registers are free.
  __device__ __forceinline__ void prepare(const TensorForward& call, const typename Tiles::Place& at) {
    const AttentionExtents& e = call.extents;
    if constexpr (kDropout)
      keep_columns<Tiles::kM, Tiles::kN>(kept, HeadMask(e, call.dropout, computed_here(at.head)), at.mine, place.key);
    place.template see<Tiles::kM, Tiles::kN>(seen, e, computed_here(at.head));
  }
  __device__ __forceinline__ void weigh_scores(const TensorForward& call, Gathered<kHead>& gathered) {
    place.hide(call.extents, scores, seen);
    weigh<kHead>(scores, gathered, shrink, call.extents.scale * kLog2E);
    if constexpr (kDropout) drop_weights(scores, kept);
  }
};

// Heads of 64: a tile after the other. Two blocks of a multiprocessor take turns at its tensor cores.
template <class T, bool kDropout>
__device__ __forceinline__ void gather(const TensorForward& call, const TilePlace<128, true>& at, const Tokens& seen,
                                       const OwnRows<T>& own, KeyWalk<T, 64, 64, 256>& walk, Gathered<64>& gathered) {
  constexpr int kKeys = 64, kHead = 64, kQueries = 128;
  const AttentionExtents& e = call.extents;
  walk.copy(e, call.in, seen.begin);
  commit_copies();
#pragma unroll 1
  for (std::int32_t key = seen.begin; key < seen.end; key += kKeys) {
    wait_for_copies<0>();
    show_to_products();
    __syncthreads();  // the other stage has been read by all, too
    if (key + kKeys < seen.end) walk.copy(e, call.in, key + kKeys);
    commit_copies();
    ForwardTile<T, kHead, kDropout> tile(at, key);
    if (tile.place.hidden(e)) continue;
    tile.prepare(call, at);
    multiply_rows_together<kHead, kQueries>(tile.scores, own, walk.keys_at(key));
    tile.weigh_scores(call, gathered);
    multiply_output(gathered, tile.shrink);
    Pair weights[1][8][2];
    round_to_pairs<T>(tile.scores, weights);
    multiply_pairs_together(gathered.out, weights, walk.values_at(key));
  }
}

// Heads of 128, whose registers leave room for one block: the weights of a tile are multiplied by its values while the scores of
// the next tile become weights. Values are copied one tile later than keys.
template <class T, bool kDropout>
__device__ __forceinline__ void gather(const TensorForward& call, const TilePlace<128, true>& at, const Tokens& seen,
                                       const OwnRows<T>& own, KeyWalk<T, 64, 128, 256>& walk, Gathered<128>& gathered) {
  constexpr int kKeys = 64, kHead = 128, kQueries = 128;
  const AttentionExtents& e = call.extents;
  const auto next_tile = [&](std::int32_t key) {
    wait_for_copies<0>();
    show_to_products();
    __syncthreads();  // keys before these and values two tiles before have been read by all, too
    if (key < seen.end) walk.copy_values(e, call.in, key);
    if (key + kKeys < seen.end) walk.copy_keys(e, call.in, key + kKeys);
    commit_copies();
  };
  walk.copy_keys(e, call.in, seen.begin);
  commit_copies();
  next_tile(seen.begin);
  const bool idle = at.together >= e.tokens;
  Pair weights[1][8][2];
  if (!idle) {  // hides the first tile by masks where the window of all queries is later
    ForwardTile<T, kHead, kDropout> tile(at, seen.begin);
    tile.prepare(call, at);
    multiply_rows_together<kHead, kQueries>(tile.scores, own, walk.keys_at(seen.begin));
    tile.weigh_scores(call, gathered);
    round_to_pairs<T>(tile.scores, weights);
  }
#pragma unroll 1
  for (std::int32_t key = seen.begin + kKeys; key < seen.end; key += kKeys) {
    next_tile(key);
    ForwardTile<T, kHead, kDropout> tile(at, key);
    if (tile.place.hidden(e)) continue;  // the last one
    tile.prepare(call, at);
    Pairs rows[4];
    take_rows(rows, weights[0]);
    issue_rows_together<kHead, kQueries>(tile.scores, own, walk.keys_at(key));
    issue_pairs_together(gathered.out, rows, walk.values_at(key - kKeys));
    wait_for_products_together<1>();
    hold_registers(tile.scores[0]);
    tile.weigh_scores(call, gathered);
    wait_for_products_together<0>();
    hold_registers(gathered.out[0]);
#pragma unroll
    for (Pairs& each : rows) hold_registers(each);  // the products have read them until here
    multiply_output(gathered, tile.shrink);
    round_to_pairs<T>(tile.scores, weights);
  }
  next_tile(seen.end);
  // Its own keys are the last ones that a warpgroup sees.
  if (!idle) multiply_pairs_together(gathered.out, weights, walk.values_at(at.together));
}

template <class T, int kHead, bool kDropout>
__global__ void __launch_bounds__(ForwardTiles<kHead>::kThreads, ForwardTiles<kHead>::blocks(kDropout))
    attention_kernel(const TensorForward call) {
  using Tiles = ForwardTiles<kHead>;
  const AttentionExtents& e = call.extents;
  const typename Tiles::Place at(call.order);
  const HeadRows head(e, at.head);
  T* queries = shared_memory<T>();
  const Tokens seen{first_key<Tiles::kKeys>(e, at.head / e.heads, at.tokens(e)), at.tokens(e).end};
  KeyWalk<T, Tiles::kKeys, kHead, Tiles::kThreads> walk(e, queries + Tiles::kQueries * kHead, head, seen.begin);
  copy_rows<Tiles::kQueries, kHead, Tiles::kThreads, InOrder>(
      queries, static_cast<const T*>(call.in.queries) + head.query_at(e, at.begin), e.query_stride, e.tokens - at.begin);
  Gathered<kHead> gathered;
  gathered.clear();
  gather<T, kDropout>(call, at, seen,
                      {queries + (at.together - at.begin) * kPartColumns, queries + (at.mine - at.begin) * kPartColumns}, walk,
                      gathered);
  const typename Tiles::Place to(call.order);
  __syncthreads();  // rows of a warpgroup have been read by all of it
  write_forward<T>(call, gathered, queries + (to.mine - to.begin) * kPartColumns, to.head, to.mine,
                   kDropout ? call.dropout.rule.keep_factor : 1.0f);
}

}  // namespace plimsoll::cuda
