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
  OfOperands<const void*> in;
  const void* d_out;
  const float *lse, *dots;  // dots: dot products of the rows of the output and of its gradient
  OfOperands<void*> out;    // null: a gradient that is not made
  bool wide;                // the results are fp32
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
// Rows of a warp's products are keys, so that weights are operands of the next product without a change.
template <int kHead>
struct KeyTiles {
  static constexpr int kM = 1, kWarps = kHead == 64 ? 4 : 8, kThreads = kWarps * kWarp;
  static constexpr int kKeys = kWarps * kWarpRows, kQueries = 64, kN = kQueries / 8;
  static constexpr int kHeld = 2 * kM;  // neighbouring keys of a thread
  static constexpr std::size_t kSharedBytes = (2 * kKeys + 2 * 2 * kQueries) * kHead * 2 + 2 * 2 * kQueries * 4;
  using Order = HeldInRows<kHeld>;
  using Place = TilePlace<kKeys, false>;

  static constexpr int blocks(bool dropout) { return kHead == 128 ? 1 : dropout ? 2 : 3; }
};

// One of two stages of shared memory: tiles of queries and of the gradients of their outputs, and the numbers of their rows.
template <class T, int kHead>
struct QueryStage {
  using Tiles = KeyTiles<kHead>;
  static constexpr int kElements = Tiles::kQueries * kHead;
  T *queries, *d_out;
  float *lse, *dots;

  // `step`: number of the tile.
  __device__ __forceinline__ QueryStage(T* stages, std::int32_t step) {
    const int stage = step % 2;
    queries = stages + stage * 2 * kElements;
    d_out = queries + kElements;
    lse = reinterpret_cast<float*>(stages + 4 * kElements) + stage * 2 * Tiles::kQueries;
    dots = lse + Tiles::kQueries;
  }
};

// A turn of a walk over the heads of a group and, for each, the tiles of queries [begin, end) that see a tile of keys.
struct QueryTurn {
  std::int32_t query, member = 0, step = 0;  // first query of the tile, number of the head in its group, number of the turn

  template <int kQueries>
  __device__ __forceinline__ QueryTurn following(std::int32_t begin, std::int32_t end) const {
    const bool last = query + kQueries >= end;
    return {last ? begin : query + kQueries, last ? member + 1 : member, step + 1};
  }
};

// The tiles of such a walk, one after the other through these stages.
template <class T, int kHead>
struct QueryWalk {
  using Tiles = KeyTiles<kHead>;
  using Copies = RowCopies<Tiles::kQueries, kHead, Tiles::kThreads, InOrder>;
  T* stages;
  const T *queries, *d_out;  // this thread's share of the first rows of the group's first head
  std::int64_t sums;         // of that head

  __device__ __forceinline__ QueryWalk(const TensorBackward& call, const HeadRows& head, T* stages)
      : stages(stages),
        queries(Copies().begin(static_cast<const T*>(call.in.queries) + head.queries, call.extents.query_stride)),
        d_out(Copies().begin(static_cast<const T*>(call.d_out) + head.out, call.extents.width())),
        sums(head.sums) {}

  __device__ __forceinline__ void copy(const TensorBackward& call, const QueryTurn& turn) const {
    const AttentionExtents& e = call.extents;
    const QueryStage<T, kHead> stage(stages, turn.step);
    const Copies copies;
    const int rows = e.tokens - turn.query;
    const auto from = [&](const T* first, std::int32_t stride) {
      return first + (static_cast<std::int64_t>(turn.query) * stride + turn.member * kHead);
    };
    copies.copy(stage.queries, from(queries, e.query_stride), e.query_stride, rows);
    copies.copy(stage.d_out, from(d_out, e.width()), e.width(), rows);
    if (threadIdx.x < 2 * Tiles::kQueries) {
      const int row = static_cast<int>(threadIdx.x) % Tiles::kQueries;
      const float* of_rows = (threadIdx.x < Tiles::kQueries ? call.lse : call.dots) + sums;
      copy_later<4>(stage.lse + threadIdx.x, of_rows + static_cast<std::int64_t>(turn.member) * e.tokens + turn.query + row,
                    row >= rows);
    }
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

// The scores, with keys in rows, of keys that the queries of their columns see, in the order of keep_rows.
template <int kN>
__device__ __forceinline__ unsigned see_rows(const Visibility& visible, std::int32_t query, std::int32_t key) {
  static_assert(4 * kN <= 32);
  const int lane = static_cast<int>(lane_of_warp()), first = computed_here(query + lane % 4 * 2), row = key + lane / 4 * 2;
  unsigned seen = 0;
#pragma unroll
  for (int j = 0; j < kN; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) seen |= visible.keys<2>(first + 8 * j + e, row) << (2 * (2 * j + e));
  }
  return seen;
}

// Sets the other scores to -inf.
template <int kHeld, int kM, int kN>
__device__ __forceinline__ void hide_rows(float (&scores)[kM][kN][4], unsigned seen) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if ((seen >> (kHeld * (2 * j + e % 2) + 2 * i + e / 2) & 1) == 0) scores[i][j][e] = -INFINITY;
      }
    }
  }
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
  const std::int32_t first_head = at.head * e.group, end = end_of_queries(e, first_head / e.heads, at.tokens(e));
  const HeadRows head(e, first_head);
  T* keys = shared_memory<T>();
  const RowCopies<Tiles::kKeys, kHead, Tiles::kThreads, typename Tiles::Order> copies;
  const auto copy = [&](T* to, const void* from) {
    copies.copy(to, copies.begin(static_cast<const T*>(from) + head.key_at(e, at.begin), e.key_stride), e.key_stride,
                e.tokens - at.begin);
  };
  copy(keys, call.in.keys);
  copy(keys + Tiles::kKeys * kHead, call.in.values);
  QueryTurn turn{at.begin};
  const QueryWalk<T, kHead> walk(call, head, keys + 2 * Tiles::kKeys * kHead);
  walk.copy(call, turn);
  commit_copies();
  float d_keys[Tiles::kM][kHead / 8][4], d_values[Tiles::kM][kHead / 8][4];
  set_zero(d_keys);
  set_zero(d_values);
#pragma unroll 1
  for (; turn.member < e.group; turn = turn.template following<Tiles::kQueries>(at.begin, end)) {
    wait_for_copies<0>();
    show_to_products();
    __syncthreads();  // the other stage has been read by all, too
    const QueryTurn next = turn.template following<Tiles::kQueries>(at.begin, end);
    if (next.member < e.group) walk.copy(call, next);
    commit_copies();
    const QueryStage<T, kHead> stage(walk.stages, turn.step);
    const std::int32_t tile = turn.query;
    if (tile + Tiles::kQueries <= at.together || at.together >= e.tokens || tile >= at.together + kGroupRows - 1 + e.window)
      continue;
    unsigned kept = 0, seen = 0;
    const bool masked = e.segments != nullptr || tile + Tiles::kQueries > at.mine + e.window;
    const std::int32_t any_head = computed_here(at.head) * e.group + turn.member;
    if constexpr (kDropout) kept = keep_rows<Tiles::kN>(HeadMask(e, call.dropout, any_head), tile, at.mine);
    if (masked) seen = see_rows<Tiles::kN>(Visibility(e, any_head / e.heads), tile, at.mine);
    float scores[Tiles::kM][Tiles::kN][4], d_weights[Tiles::kM][Tiles::kN][4];
    const OwnRows<T> own{keys + (at.together - at.begin) * kPartColumns, keys + (at.mine - at.begin) * kPartColumns};
    multiply_both<kHead, Tiles::kKeys, T>(scores, own, stage.queries, d_weights, own.further(Tiles::kKeys * kHead), stage.d_out);
    if (masked) {
      hide_rows<Tiles::kHeld>(scores, seen);
    } else if (tile < at.mine + kWarpRows - 1) {
      hide_earlier_columns<Tiles::kHeld>(scores, tile - at.mine);
    }
    Pair weights[Tiles::kM][Tiles::kN][2], d_scores[Tiles::kM][Tiles::kN][2];
    key_gradients<T, kHead, kDropout>(scores, d_weights, weights, d_scores, stage.lse, stage.dots, kept,
                                      call.dropout.rule.keep_factor, e.scale * kLog2E);
    multiply_pairs_together(d_values, weights, stage.d_out);
    multiply_pairs_together(d_keys, d_scores, stage.queries);
  }
  const typename Tiles::Place to(call.order);
  __syncthreads();  // rows of a warpgroup have been read by all of it
  if (to.mine >= e.tokens) return;
  scale_all(d_keys, e.scale);
  if constexpr (kDropout) scale_all(d_values, call.dropout.rule.keep_factor);
  RowsTo rows{call.out.keys, HeadRows(e, to.head * e.group).key_at(e, to.mine), e.key_stride, e.tokens - to.mine, call.wide};
  T* own = keys + (to.mine - to.begin) * kPartColumns;
  if (rows.data != nullptr) write_rows<kHead, Tiles::kKeys>(d_keys, own, rows, typename Tiles::Order{});
  rows.data = call.out.values;
  if (rows.data == nullptr) return;
  write_rows<kHead, Tiles::kKeys>(d_values, own + Tiles::kKeys * kHead, rows, typename Tiles::Order{});
}

// Gradients of queries: like forward, with the gradients of outputs next to the queries.
template <int kHead>
struct QueryTiles {
  static constexpr int kM = 1, kWarps = 8, kThreads = kWarps * kWarp;
  static constexpr int kQueries = kWarps * kWarpRows, kKeys = 64, kN = kKeys / 8;
  static constexpr std::size_t kSharedBytes = (2 * kQueries + 2 * 2 * kKeys) * kHead * 2;
  using Place = TilePlace<kQueries, true>;

  static constexpr int blocks(bool dropout) { return kHead == 128 || dropout ? 1 : 2; }
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
  const std::int32_t first = first_key<Tiles::kKeys>(e, at.head / e.heads, at.tokens(e)), end = at.tokens(e).end;
  KeyWalk<T, Tiles::kKeys, kHead, Tiles::kThreads> walk(e, queries + 2 * Tiles::kQueries * kHead, head, first);
  const auto copy = [&](T* to, const T* from, std::int32_t stride) {
    copy_rows<Tiles::kQueries, kHead, Tiles::kThreads, InOrder>(to, from, stride, e.tokens - at.begin);
  };
  copy(queries, static_cast<const T*>(call.in.queries) + head.query_at(e, at.begin), e.query_stride);
  copy(queries + Tiles::kQueries * kHead, static_cast<const T*>(call.d_out) + head.out_at(e, at.begin), e.width());
  walk.copy(e, call.in, first);
  commit_copies();
  const RowSums<Tiles::kM> sums(call.lse + head.sums + at.mine, call.dots + head.sums + at.mine, e.tokens - at.mine);
  float d_queries[Tiles::kM][kHead / 8][4];
  set_zero(d_queries);
#pragma unroll 1
  for (std::int32_t key = first; key < end; key += Tiles::kKeys) {
    wait_for_copies<0>();
    show_to_products();
    __syncthreads();  // the other stage has been read by all, too
    if (key + Tiles::kKeys < end) walk.copy(e, call.in, key + Tiles::kKeys);
    commit_copies();
    const KeysAndQueries<Tiles::kKeys> tile{key, at.mine, at.together};
    if (tile.hidden(e)) continue;
    const T* keys = walk.keys_at(key);
    unsigned kept[Tiles::kM] = {};
    if constexpr (kDropout)
      keep_columns<Tiles::kM, Tiles::kN>(kept, HeadMask(e, call.dropout, computed_here(at.head)), at.mine, key);
    unsigned seen[Tiles::kM] = {};
    tile.template see<Tiles::kM, Tiles::kN>(seen, e, computed_here(at.head));
    float scores[Tiles::kM][Tiles::kN][4], d_weights[Tiles::kM][Tiles::kN][4];
    const OwnRows<T> own{queries + (at.together - at.begin) * kPartColumns, queries + (at.mine - at.begin) * kPartColumns};
    multiply_both<kHead, Tiles::kQueries, T>(scores, own, keys, d_weights, own.further(Tiles::kQueries * kHead),
                                             walk.values_at(key));
    tile.hide(e, scores, seen);
    Pair d_scores[Tiles::kM][Tiles::kN][2];
    query_gradients<T, kHead, kDropout>(scores, d_weights, d_scores, sums, kept, call.dropout.rule.keep_factor, e.scale * kLog2E);
    multiply_pairs_together(d_queries, d_scores, keys);
  }
  const typename Tiles::Place to(call.order);
  __syncthreads();  // rows of a warpgroup have been read by all of it
  if (to.mine >= e.tokens) return;
  scale_all(d_queries, e.scale);
  write_rows<kHead, Tiles::kQueries>(
      d_queries, queries + (to.mine - to.begin) * kPartColumns,
      {call.out.queries, HeadRows(e, to.head).query_at(e, to.mine), e.query_stride, e.tokens - to.mine, call.wide}, InOrder{});
}

}  // namespace plimsoll::cuda
