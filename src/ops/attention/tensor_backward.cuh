// Gradients of attention on tensor cores, in an order that depends on shapes alone. One kernel sums the gradients of keys and
// values over the queries that see them, another the gradients of queries over the keys that they see. Both compute the weights
// and their gradients again, so that no two blocks add to one sum.
#pragma once

#include "ops/attention/call.cuh"
#include "ops/attention/tensor_tiles.cuh"

namespace plimsoll::cuda {

struct TensorBackward {
  AttentionExtents extents;
  AttentionDropout dropout;
  BlockOrder order;
  const void *qkv, *d_out;
  const float *lse, *dots;  // dots: dot products of the rows of the output and of its gradient
  void* d_qkv;
  bool wide;  // the result is fp32
};

// The weight of a score, and the gradient of that score.
struct ScoreGradient {
  float weight, gradient;  // the weight that the value gets; of the score before its scale
};
template <bool kDropout>
__device__ __forceinline__ ScoreGradient score_gradient(float score, float d_weight, float scale, float lse, float dot, bool kept,
                                                        float factor) {
  const float weight = fast_exp2(fmaf(score, scale, -lse));
  if constexpr (!kDropout) return {weight, weight * (d_weight - dot)};
  return {kept ? weight : 0.0f, weight * ((kept ? d_weight * factor : 0.0f) - dot)};
}

template <int kM, int kN>
__device__ __forceinline__ void scale_all(float (&c)[kM][kN][4], float factor) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) c[i][j][e] *= factor;
    }
  }
}

// Gradients of keys and values. A block has 128 keys in shared memory, or 64 for heads of 64, and goes over tiles of queries.
// Rows of a warp's products are keys, so that weights are operands of the next product without a change. For heads of 64 a
// warpgroup has 64 keys (wgmma.cuh).
template <int kHead>
struct KeyTiles {
  static constexpr bool kGroups = kHead == 64;
  static constexpr int kM = 1, kOfWarp = 16, kWarps = kGroups ? 4 : 8, kThreads = kWarps * kWarp;
  static constexpr int kTogether = kGroups ? kGroupRows : kOfWarp;
  static constexpr int kKeys = kWarps * kOfWarp, kQueries = 64, kN = kQueries / 8;
  static constexpr int kUnroll = 2;
  static constexpr int kHeld = 2 * kM;  // neighbouring keys of a thread
  static constexpr std::size_t kSharedBytes = (2 * kKeys + 2 * 2 * kQueries) * kHead * 2 + 2 * 2 * kQueries * 4;
  using Order = HeldInRows<kHeld>;
  using Place = TilePlace<kKeys, kOfWarp, kTogether, false>;

  static constexpr int blocks(bool dropout) { return !kGroups ? 1 : dropout ? 2 : 3; }
};

// One of two stages of shared memory: tiles of queries and of the gradients of their outputs, and the numbers of their rows.
template <class T, int kHead>
struct QueryStage {
  using Tiles = KeyTiles<kHead>;
  static constexpr int kElements = Tiles::kQueries * kHead;
  T *queries, *d_out;
  float *lse, *dots;

  __device__ __forceinline__ QueryStage(T* stages, std::int32_t query) {
    const int stage = query / Tiles::kQueries % 2;
    queries = stages + stage * 2 * kElements;
    d_out = queries + kElements;
    lse = reinterpret_cast<float*>(stages + 4 * kElements) + stage * 2 * Tiles::kQueries;
    dots = lse + Tiles::kQueries;
  }
};

// The tiles of queries that see a tile of keys, one after the other through these stages.
template <class T, int kHead>
struct QueryWalk {
  using Tiles = KeyTiles<kHead>;
  using Copies = RowCopies<kHead, Tiles::kThreads, InOrder>;
  T* stages;
  const T *next_queries, *next_d_out;  // of this thread's share
  std::int64_t sums;                   // of the head

  __device__ __forceinline__ QueryWalk(const TensorBackward& call, const HeadRows& head, T* stages, std::int32_t query)
      : stages(stages) {
    const AttentionExtents& e = call.extents;
    next_queries = Copies().begin(static_cast<const T*>(call.qkv) + head.qkv_at(e, query), e.stride());
    next_d_out = Copies().begin(static_cast<const T*>(call.d_out) + head.out_at(e, query), e.width());
    sums = head.sums;
  }

  // Called for each tile in order.
  __device__ __forceinline__ void copy(const TensorBackward& call, std::int32_t query) {
    const AttentionExtents& e = call.extents;
    const QueryStage<T, kHead> stage(stages, query);
    const Copies copies;
    const int rows = e.tokens - query;
    copies.template copy<Tiles::kQueries>(stage.queries, next_queries, e.stride(), rows);
    copies.template copy<Tiles::kQueries>(stage.d_out, next_d_out, e.width(), rows);
    if (threadIdx.x < 2 * Tiles::kQueries) {
      const int row = static_cast<int>(threadIdx.x) % Tiles::kQueries;
      const float* from = (threadIdx.x < Tiles::kQueries ? call.lse : call.dots) + sums + query + row;
      copy_later<4>(stage.lse + threadIdx.x, from, row >= rows);
    }
    next_queries += Tiles::kQueries * e.stride();
    next_d_out += Tiles::kQueries * e.width();
  }
};

// The weights, with keys in rows (HeldInRows), that dropout keeps: bit 2 (2 j + e) + r is that of c[0][j][2 r + e]. A thread that
// has two of four neighbours computes the words of every other query, and its partner the rest. `query` and `key` are those of
// the first column and row.
template <int kN>
__device__ __forceinline__ unsigned keep_rows(const HeadMask& mask, std::int32_t query, std::int32_t key) {
  static_assert(4 * kN <= 32);
  const int g = static_cast<int>(lane_of_warp()) / 4, first = computed_here(query + static_cast<int>(lane_of_warp()) % 4 * 2);
  unsigned kept = 0;
#pragma unroll
  for (int j = 0; j < kN; ++j) kept |= (mask.four_keys(first + g % 2 + 8 * j, key + g / 2 * 4) & 15) << (4 * j);
  constexpr unsigned kEveryOtherTwo = 0x33333333;
  const unsigned other = __shfl_xor_sync(kAllLanes, kept, 4), of_first = g % 2 == 0 ? kept : other,
                 of_second = g % 2 == 0 ? other : kept;
  return (of_first >> g % 2 * 2 & kEveryOtherTwo) | (of_second >> g % 2 * 2 & kEveryOtherTwo) << 2;
}

// Scores and gradients of weights become the operands of the next products. `kept`: by keep_rows.
template <class T, int kHead, bool kDropout>
__device__ __forceinline__ void key_gradients(const float (&scores)[KeyTiles<kHead>::kM][KeyTiles<kHead>::kN][4],
                                              const float (&d_weights)[KeyTiles<kHead>::kM][KeyTiles<kHead>::kN][4],
                                              Pair (&weights)[KeyTiles<kHead>::kM][KeyTiles<kHead>::kN][2],
                                              Pair (&d_scores)[KeyTiles<kHead>::kM][KeyTiles<kHead>::kN][2], const float* lse,
                                              const float* dots, unsigned kept, float factor, float scale) {
  using Tiles = KeyTiles<kHead>;
  const int column = static_cast<int>(lane_of_warp()) % 4 * 2;
#pragma unroll
  for (int j = 0; j < Tiles::kN; ++j) {
    const auto lse_of = *reinterpret_cast<const Pack<float, 2>*>(lse + 8 * j + column);
    const auto dot_of = *reinterpret_cast<const Pack<float, 2>*>(dots + 8 * j + column);
#pragma unroll
    for (int i = 0; i < Tiles::kM; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        ScoreGradient of[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          of[e] = score_gradient<kDropout>(scores[i][j][2 * r + e], d_weights[i][j][2 * r + e], scale, lse_of.at[e] * kLog2E,
                                           dot_of.at[e], (kept >> (Tiles::kHeld * (2 * j + e) + 2 * i + r) & 1) != 0, factor);
        }
        weights[i][j][r] = narrow_pair<T>(of[0].weight, of[1].weight);
        d_scores[i][j][r] = narrow_pair<T>(of[0].gradient, of[1].gradient);
      }
    }
  }
}

// Sets scores of queries (columns) before the key of their row to -inf. `ahead`: first query - first key.
template <int kHeld, int kM, int kN>
__device__ __forceinline__ void hide_earlier_columns(float (&scores)[kM][kN][4], int ahead) {
  const int lane = static_cast<int>(lane_of_warp()), unseen = lane / 4 * kHeld - ahead - lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (8 * j + e % 2 < unseen + 2 * i + e / 2) scores[i][j][e] = -INFINITY;
      }
    }
  }
}

template <class T, int kHead, bool kDropout>
__global__ void __launch_bounds__(KeyTiles<kHead>::kThreads, KeyTiles<kHead>::blocks(kDropout))
    attention_keys_kernel(const TensorBackward call) {
  using Tiles = KeyTiles<kHead>;
  const AttentionExtents& e = call.extents;
  const typename Tiles::Place at(call.order);
  const HeadRows head(e, at.head);
  T* keys = shared_memory<T>();
  T* own = keys + (at.mine - at.begin) * kHead;
  const T* from = static_cast<const T*>(call.qkv) + head.qkv_at(e, at.begin) + e.width();
  const RowCopies<kHead, Tiles::kThreads, typename Tiles::Order> copies;
  from = copies.begin(from, e.stride());
  copies.template copy<Tiles::kKeys>(keys, from, e.stride(), e.tokens - at.begin);
  copies.template copy<Tiles::kKeys>(keys + Tiles::kKeys * kHead, from + e.width(), e.stride(), e.tokens - at.begin);
  QueryWalk<T, kHead> walk(call, head, keys + 2 * Tiles::kKeys * kHead, at.begin);
  walk.copy(call, at.begin);
  commit_copies();
  float d_keys[Tiles::kM][kHead / 8][4], d_values[Tiles::kM][kHead / 8][4];
  set_zero(d_keys);
  set_zero(d_values);
#pragma unroll 1
  for (std::int32_t tile = at.begin; tile < e.tokens; tile += Tiles::kQueries) {
    wait_for_copies<0>();
    show_to_products();
    __syncthreads();  // the other stage has been read by all, too
    const std::int32_t next = tile + Tiles::kQueries;
    if (next < e.tokens) walk.copy(call, next);
    commit_copies();
    const QueryStage<T, kHead> stage(walk.stages, tile);
    if (next <= at.together || at.together >= e.tokens) continue;
    unsigned kept = 0;
    if constexpr (kDropout) kept = keep_rows<Tiles::kN>(HeadMask(e, call.dropout, computed_here(at.head)), tile, at.mine);
    float scores[Tiles::kM][Tiles::kN][4], d_weights[Tiles::kM][Tiles::kN][4];
    if constexpr (Tiles::kGroups) {
      const T* group = keys + (at.together - at.begin) * kHead;
      multiply_both<T>(scores, {group, own}, stage.queries, d_weights, {group + Tiles::kKeys * kHead, own + Tiles::kKeys * kHead},
                       stage.d_out);
    } else {
      multiply_rows<kHead, Tiles::kUnroll>(scores, own, stage.queries);
      multiply_rows<kHead, Tiles::kUnroll>(d_weights, own + Tiles::kKeys * kHead, stage.d_out);
    }
    if (tile < at.mine + Tiles::kOfWarp - 1) hide_earlier_columns<Tiles::kHeld>(scores, tile - at.mine);
    Pair weights[Tiles::kM][Tiles::kN][2], d_scores[Tiles::kM][Tiles::kN][2];
    key_gradients<T, kHead, kDropout>(scores, d_weights, weights, d_scores, stage.lse, stage.dots, kept,
                                      call.dropout.rule.keep_factor, e.scale * kLog2E);
    if constexpr (Tiles::kGroups) {
      multiply_pairs_together(d_values, weights, stage.d_out);
      multiply_pairs_together(d_keys, d_scores, stage.queries);
    } else if (apart(call.order)) {
      multiply_pairs<kHead>(d_values, weights, stage.d_out);
      multiply_pairs<kHead>(d_keys, d_scores, stage.queries);
    }
  }
  const typename Tiles::Place to(call.order);
  if constexpr (Tiles::kGroups) __syncthreads();  // rows of a warpgroup have been read by all of it
  if (to.mine >= e.tokens) return;
  scale_all(d_keys, e.scale);
  if constexpr (kDropout) scale_all(d_values, call.dropout.rule.keep_factor);
  RowsTo rows{call.d_qkv, HeadRows(e, to.head).qkv_at(e, to.mine) + e.width(), e.stride(), e.tokens - to.mine, call.wide};
  write_rows<kHead>(d_keys, keys + (to.mine - to.begin) * kHead, rows, typename Tiles::Order{});
  rows.first += e.width();
  write_rows<kHead>(d_values, keys + (to.mine - to.begin + Tiles::kKeys) * kHead, rows, typename Tiles::Order{});
}

// Gradients of queries: like forward, with the gradients of outputs next to the queries.
template <int kHead>
struct QueryTiles {
  static constexpr bool kGroups = kHead == 64;
  static constexpr int kM = kGroups ? 1 : 2, kOfWarp = 16 * kM, kWarps = kGroups ? 8 : 4, kThreads = kWarps * kWarp;
  static constexpr int kTogether = kGroups ? kGroupRows : kOfWarp, kQueries = kWarps * kOfWarp;
  static constexpr int kKeys = kGroups ? 64 : 32, kN = kKeys / 8, kUnroll = 4;
  static constexpr std::size_t kSharedBytes = (2 * kQueries + 2 * 2 * kKeys) * kHead * 2;
  using Place = TilePlace<kQueries, kOfWarp, kTogether, true>;

  static constexpr int blocks(bool dropout) { return kGroups && dropout ? 1 : 2; }
};

// The numbers of a thread's rows; the log-sum-exp is in base 2.
template <int kM>
struct RowSums {
  float lse[kM][2], dot[kM][2];

  __device__ __forceinline__ RowSums(const float* lse_of, const float* dot_of, int rows) {
#pragma unroll
    for (int i = 0; i < kM; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = 16 * i + 8 * r + static_cast<int>(lane_of_warp()) / 4;
        lse[i][r] = row < rows ? lse_of[row] * kLog2E : 0;
        dot[i][r] = row < rows ? dot_of[row] : 0;
      }
    }
  }
};

template <class T, int kHead, bool kDropout>
__device__ __forceinline__ void query_gradients(const float (&scores)[QueryTiles<kHead>::kM][QueryTiles<kHead>::kN][4],
                                                const float (&d_weights)[QueryTiles<kHead>::kM][QueryTiles<kHead>::kN][4],
                                                Pair (&d_scores)[QueryTiles<kHead>::kM][QueryTiles<kHead>::kN][2],
                                                const RowSums<QueryTiles<kHead>::kM>& rows,
                                                const unsigned (&kept)[QueryTiles<kHead>::kM], float factor, float scale) {
#pragma unroll
  for (int i = 0; i < QueryTiles<kHead>::kM; ++i) {
#pragma unroll
    for (int j = 0; j < QueryTiles<kHead>::kN; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float of[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          of[e] = score_gradient<kDropout>(scores[i][j][2 * r + e], d_weights[i][j][2 * r + e], scale, rows.lse[i][r],
                                           rows.dot[i][r], (kept[i] >> (16 * r + 2 * j + e) & 1) != 0, factor)
                      .gradient;
        }
        d_scores[i][j][r] = narrow_pair<T>(of[0], of[1]);
      }
    }
  }
}

template <class T, int kHead, bool kDropout>
__global__ void __launch_bounds__(QueryTiles<kHead>::kThreads, QueryTiles<kHead>::blocks(kDropout))
    attention_queries_kernel(const TensorBackward call) {
  using Tiles = QueryTiles<kHead>;
  const AttentionExtents& e = call.extents;
  const typename Tiles::Place at(call.order);
  const HeadRows head(e, at.head);
  T* queries = shared_memory<T>();
  T* own = queries + (at.mine - at.begin) * kHead;
  const T* rows = static_cast<const T*>(call.qkv);
  KeyWalk<T, Tiles::kKeys, kHead, Tiles::kThreads> walk(e, queries + 2 * Tiles::kQueries * kHead, rows + head.qkv);
  copy_rows<Tiles::kQueries, kHead, Tiles::kThreads, InOrder>(queries, rows + head.qkv_at(e, at.begin), e.stride(),
                                                              e.tokens - at.begin);
  copy_rows<Tiles::kQueries, kHead, Tiles::kThreads, InOrder>(queries + Tiles::kQueries * kHead,
                                                              static_cast<const T*>(call.d_out) + head.out_at(e, at.begin),
                                                              e.width(), e.tokens - at.begin);
  walk.copy(e, 0);
  commit_copies();
  const RowSums<Tiles::kM> sums(call.lse + head.sums + at.mine, call.dots + head.sums + at.mine, e.tokens - at.mine);
  float d_queries[Tiles::kM][kHead / 8][4];
  set_zero(d_queries);
  const std::int32_t end = at.end(e.tokens);
#pragma unroll 1
  for (std::int32_t key = 0; key < end; key += Tiles::kKeys) {
    wait_for_copies<0>();
    show_to_products();
    __syncthreads();  // the other stage has been read by all, too
    if (key + Tiles::kKeys < end) walk.copy(e, key + Tiles::kKeys);
    commit_copies();
    if (key >= at.together + Tiles::kTogether || at.together >= e.tokens) continue;
    const T* keys = walk.keys_at(key);
    unsigned kept[Tiles::kM] = {};
    if constexpr (kDropout)
      keep_columns<Tiles::kM, Tiles::kN>(kept, HeadMask(e, call.dropout, computed_here(at.head)), at.mine, key);
    float scores[Tiles::kM][Tiles::kN][4], d_weights[Tiles::kM][Tiles::kN][4];
    if constexpr (Tiles::kGroups) {
      const T* group = queries + (at.together - at.begin) * kHead;
      multiply_both<T>(scores, {group, own}, keys, d_weights, {group + Tiles::kQueries * kHead, own + Tiles::kQueries * kHead},
                       keys + Tiles::kKeys * kHead);
    } else {
      multiply_rows<kHead, Tiles::kUnroll>(scores, own, keys);
      multiply_rows<kHead, Tiles::kUnroll>(d_weights, own + Tiles::kQueries * kHead, keys + Tiles::kKeys * kHead);
    }
    if (key + Tiles::kKeys > at.mine + 1) hide_later_columns(scores, at.mine - key);
    Pair d_scores[Tiles::kM][Tiles::kN][2];
    query_gradients<T, kHead, kDropout>(scores, d_weights, d_scores, sums, kept, call.dropout.rule.keep_factor, e.scale * kLog2E);
    if constexpr (Tiles::kGroups) {
      multiply_pairs_together(d_queries, d_scores, keys);
    } else if (apart(call.order)) {
      multiply_pairs<kHead>(d_queries, d_scores, keys);
    }
  }
  const typename Tiles::Place to(call.order);
  if constexpr (Tiles::kGroups) __syncthreads();  // rows of a warpgroup have been read by all of it
  if (to.mine >= e.tokens) return;
  scale_all(d_queries, e.scale);
  write_rows<kHead>(d_queries, queries + (to.mine - to.begin) * kHead,
                    {call.d_qkv, HeadRows(e, to.head).qkv_at(e, to.mine), e.stride(), e.tokens - to.mine, call.wide}, InOrder{});
}

}  // namespace plimsoll::cuda
