// Attention in fp32 arithmetic, for any head size and any types of operands and results. A tile has 64 queries and 64 keys; a
// thread has 4 x 4 of its scores. Operands pass through shared memory in slices of the head. A block makes up to 128 columns of
// the result; wider heads have several blocks, each of which computes the scores.
#pragma once

#include "ops/attention/call.cuh"
#include "ops/attention/masks.cuh"

namespace plimsoll::cuda {

inline constexpr int kPlainTile = 64, kPlainThreads = 256, kPlainRow = kPlainTile + 4;  // rows of shared memory, 16-byte aligned
inline constexpr int kPlainSlice = 32, kPlainSlices = 2 * kPlainSlice * kPlainRow;      // floats of a slice of both operands
inline constexpr std::size_t kPlainSharedBytes = (kPlainTile * kPlainRow + kPlainSlices) * sizeof(float);

// Rows of one head of an operand, from a tile's first one on.
struct PlainRows {
  Elements elements;
  std::int64_t first;
  std::int32_t stride, rows, columns;
};

// A thread's part of copying `count` elements: to[place(i)] = the element in row(i) and column(i), or 0 outside of the operand.
template <class Row, class Column, class Place>
__device__ __forceinline__ void load_plain(float* to, const PlainRows& from, int count, Row row, Column column, Place place) {
  from.elements.visit([&](const auto* data) {
#pragma unroll 4
    for (int i = computed_here(static_cast<int>(threadIdx.x)); i < count; i += kPlainThreads) {
      const bool there = row(i) < from.rows && column(i) < from.columns;
      to[place(i)] = there ? widen(data[from.first + static_cast<std::int64_t>(row(i)) * from.stride + column(i)]) : 0.0f;
    }
  });
}

__device__ __forceinline__ int plain_y() { return static_cast<int>(threadIdx.x) / 16; }
__device__ __forceinline__ int plain_x() { return static_cast<int>(threadIdx.x) % 16; }

// Copies columns from `begin` on of 64 rows, transposed: each column becomes a row of shared memory. A warp takes eight columns
// of four rows, which use all banks.
__device__ __forceinline__ void load_columns(float* to, const PlainRows& from, int begin) {
  const auto column = [](int i) { return i % 8 + i / 32 % 4 * 8; };
  const auto row = [](int i) { return i / 8 % 4 + i / 128 * 4; };
  load_plain(
      to, from, kPlainTile * kPlainSlice, row, [&](int i) { return begin + column(i); },
      [&](int i) { return column(i) * kPlainRow + row(i); });
}

// c[i][j] = the dot product of row 4 y + i of a and row 4 x + j of b. No thread uses the slices before or after the call.
__device__ __forceinline__ void multiply_plain_rows(float (&c)[4][4], float* slices, const PlainRows& a, const PlainRows& b) {
  float* of_b = slices + kPlainSlice * kPlainRow;
#pragma unroll
  for (int i = 0; i < 4; ++i) c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
  for (int begin = 0; begin < a.columns; begin += kPlainSlice) {
    load_columns(slices, a, begin);
    load_columns(of_b, b, begin);
    __syncthreads();
    const int depth = a.columns - begin < kPlainSlice ? a.columns - begin : kPlainSlice;
#pragma unroll 2
    for (int k = 0; k < depth; ++k) {
      const Pack<float> x = load_pack(slices + k * kPlainRow + 4 * plain_y()),
                        y = load_pack(of_b + k * kPlainRow + 4 * plain_x());
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) c[i][j] += x.at[i] * y.at[j];
      }
    }
    __syncthreads();
  }
}

// c[i][j] += sum over k of weights[k][4 y + i] b[k][column + x + 16 j]. The weights may be written up to the call; no thread uses
// weights or slices after it.
template <int kC>
__device__ __forceinline__ void multiply_plain_weights(float (&c)[4][kC], float* slices, const float* weights, const PlainRows& b,
                                                       int column) {
  constexpr int kWidth = 16 * kC;
  for (int begin = 0; begin < kPlainTile; begin += kPlainSlice) {
    load_plain(
        slices, b, kPlainSlice * kWidth, [&](int i) { return begin + i / kWidth; }, [&](int i) { return column + i % kWidth; },
        [](int i) { return i; });
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < kPlainSlice; ++k) {
      const Pack<float> x = load_pack(weights + (begin + k) * kPlainRow + 4 * plain_y());
#pragma unroll
      for (int j = 0; j < kC; ++j) {
        const float y = slices[k * kWidth + plain_x() + 16 * j];
#pragma unroll
        for (int i = 0; i < 4; ++i) c[i][j] += x.at[i] * y;
      }
    }
    __syncthreads();
  }
}

// Writes to weights[4 y + i][4 x + j] or, transposed, to weights[4 x + j][4 y + i].
template <bool kTransposed>
__device__ __forceinline__ void store_weights(const float (&c)[4][4], float* weights) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    Pack<float> row;
#pragma unroll
    for (int j = 0; j < 4; ++j) row.at[j] = kTransposed ? c[j][i] : c[i][j];
    store_pack(row,
               weights + (4 * (kTransposed ? plain_x() : plain_y()) + i) * kPlainRow + 4 * (kTransposed ? plain_y() : plain_x()));
  }
}

struct PlainTo {
  void* data;
  DType type;
  std::int64_t first;
  std::int32_t stride, rows, columns;
};

template <int kC>
__device__ __forceinline__ void write_plain_rows(const float (&c)[4][kC], const float (&factors)[4], const PlainTo& to,
                                                 int column) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = 4 * plain_y() + i;
#pragma unroll
    for (int j = 0; j < kC; ++j) {
      const int at = column + plain_x() + 16 * j;
      if (row >= to.rows || at >= to.columns) continue;
      store_element(c[i][j] * factors[i], to.data, to.type, to.first + static_cast<std::int64_t>(row) * to.stride + at);
    }
  }
}

struct PlainForward {
  AttentionExtents extents;
  AttentionDropout dropout;
  BlockOrder order;
  OfOperands<Elements> in;
  void* out;
  DType out_type;
  float* lse;
};

__device__ __forceinline__ PlainRows query_rows(const AttentionExtents& e, const Elements& queries, const HeadRows& head,
                                                std::int32_t token) {
  return {queries, head.query_at(e, token), e.query_stride, e.tokens - token, e.head_size};
}
// `keys`: keys or values.
__device__ __forceinline__ PlainRows key_rows(const AttentionExtents& e, const Elements& keys, const HeadRows& head,
                                              std::int32_t token) {
  return {keys, head.key_at(e, token), e.key_stride, e.tokens - token, e.head_size};
}

__device__ __forceinline__ Tokens plain_tile(const AttentionExtents& e, std::int32_t begin) {
  return {begin, begin + kPlainTile < e.tokens ? begin + kPlainTile : e.tokens};
}

// The maximum and the sum over the 16 threads that share rows.
__device__ __forceinline__ float row_max(float x) {
#pragma unroll
  for (unsigned mask = 8; mask > 0; mask /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, mask));
  return x;
}
__device__ __forceinline__ float row_sum(float x) {
#pragma unroll
  for (unsigned mask = 8; mask > 0; mask /= 2) x += __shfl_xor_sync(kAllLanes, x, mask);
  return x;
}

// The masks of a thread's scores: bit 4 i + j is that of query + i and key + j.
struct PlainMasks {
  unsigned seen = 0, kept = 0xFFFF;  // by order, window and segments; by dropout

  // Made before the scores, while registers are free.
  __device__ __forceinline__ PlainMasks(const AttentionExtents& e, const AttentionDropout& dropout, std::int32_t any_head,
                                        std::int32_t query, std::int32_t key) {
    const Visibility visible(e, any_head / e.heads);
#pragma unroll 1
    for (int i = 0; i < 4; ++i) seen |= visible.keys<4>(query + i, key) << 4 * i;
    if (dropout.rule.threshold == 0) return;
    const HeadMask mask(e, dropout, any_head);
    kept = 0;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) kept |= (mask.four_keys(query + i, key) & 15) << 4 * i;
  }
  __device__ __forceinline__ bool sees(int i, int j) const { return (seen >> (4 * i + j) & 1) != 0; }
  __device__ __forceinline__ bool keeps(int i, int j) const { return (kept >> (4 * i + j) & 1) != 0; }
};

template <int kC>
__global__ void __launch_bounds__(kPlainThreads, 2) plain_attention_kernel(const PlainForward call) {
  const AttentionExtents& e = call.extents;
  const BlockWork work(call.order, blockIdx.x);
  const HeadRows head(e, work.head);
  const std::int32_t begin = (call.order.tiles - 1 - work.turn) * kPlainTile, query = begin + 4 * plain_y();
  const int column = static_cast<int>(blockIdx.y) * 16 * kC;
  float* weights = shared_memory<float>();
  float* slices = weights + kPlainTile * kPlainRow;
  float out[4][kC] = {}, most[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, sum[4] = {};
  for (std::int32_t key = first_key<kPlainTile>(e, work.head / e.heads, plain_tile(e, begin)); key <= begin; key += kPlainTile) {
    const PlainMasks masks(e, call.dropout, computed_here(work.head), query, key + 4 * plain_x());
    float scores[4][4];
    multiply_plain_rows(scores, slices, query_rows(e, call.in.queries, head, begin), key_rows(e, call.in.keys, head, key));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float before = most[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = masks.sees(i, j) ? scores[i][j] * e.scale : -INFINITY;
        most[i] = fmaxf(most[i], scores[i][j]);
      }
      most[i] = row_max(most[i]);
      const float top = finite_top(most[i]), shrink = expf(before - top);
      sum[i] *= shrink;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float weight = expf(scores[i][j] - top);
        sum[i] += weight;
        scores[i][j] = masks.keeps(i, j) ? weight : 0.0f;
      }
#pragma unroll
      for (int j = 0; j < kC; ++j) out[i][j] *= shrink;
    }
    store_weights<true>(scores, weights);
    multiply_plain_weights(out, slices, weights, key_rows(e, call.in.values, head, key), column);
  }
  float factors[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum[i] = row_sum(sum[i]);
    factors[i] = call.dropout.rule.keep_factor / sum[i];
    if (column == 0 && plain_x() == 0 && query + i < e.tokens) call.lse[head.sums + query + i] = most[i] + logf(sum[i]);
  }
  const PlainTo to{call.out,  call.out_type,    head.out + static_cast<std::int64_t>(begin) * e.width(),
                   e.width(), e.tokens - begin, e.head_size};
  write_plain_rows(out, factors, to, column);
}

struct PlainBackward {
  AttentionExtents extents;
  AttentionDropout dropout;
  BlockOrder order;
  OfOperands<Elements> in;
  Elements d_out;
  const float *lse, *dots;  // dots: dot products of the rows of the output and of its gradient
  OfOperands<void*> out;    // null: a gradient that is not made
  DType out_type;

  __device__ __forceinline__ PlainRows rows_of_d_out(const HeadRows& head, std::int32_t token) const {
    return {d_out, head.out_at(extents, token), extents.width(), extents.tokens - token, extents.head_size};
  }
  // The rows `to` of a gradient that are places `rows` of its operand.
  __device__ __forceinline__ PlainTo to_rows(void* to, const PlainRows& rows) const {
    return {to, out_type, rows.first, rows.stride, rows.rows, rows.columns};
  }
};

// The weights of values and the unscaled gradients of scores, for a tile of queries and a tile of keys.
__device__ __forceinline__ void plain_gradients(const PlainBackward& call, const HeadRows& head, std::int32_t any_head,
                                                std::int32_t first_query, std::int32_t first_key, float* slices,
                                                float (&weights)[4][4], float (&d_scores)[4][4]) {
  const AttentionExtents& e = call.extents;
  const PlainMasks masks(e, call.dropout, computed_here(any_head), first_query + 4 * plain_y(), first_key + 4 * plain_x());
  multiply_plain_rows(weights, slices, query_rows(e, call.in.queries, head, first_query),
                      key_rows(e, call.in.keys, head, first_key));
  multiply_plain_rows(d_scores, slices, call.rows_of_d_out(head, first_query), key_rows(e, call.in.values, head, first_key));
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int32_t query = first_query + 4 * plain_y() + i;
    const bool there = query < e.tokens;
    const float lse = there ? call.lse[head.sums + query] : 0, dot = there ? call.dots[head.sums + query] : 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float weight = there && masks.sees(i, j) ? expf(weights[i][j] * e.scale - lse) : 0.0f;
      const float factor = masks.keeps(i, j) ? call.dropout.rule.keep_factor : 0.0f;
      weights[i][j] = weight * factor;
      d_scores[i][j] = weight * (d_scores[i][j] * factor - dot);
    }
  }
}

// Gradients of keys and values, over the heads of their group and tiles of queries in ascending order.
template <int kC>
__global__ void __launch_bounds__(kPlainThreads, kC <= 4 ? 2 : 1) plain_keys_kernel(const PlainBackward call) {
  const AttentionExtents& e = call.extents;
  const BlockWork work(call.order, blockIdx.x);
  const std::int32_t key = work.turn * kPlainTile, first = work.head * e.group;
  const int column = static_cast<int>(blockIdx.y) * 16 * kC;
  float* shared = shared_memory<float>();
  float* slices = shared + kPlainTile * kPlainRow;
  float d_keys[4][kC] = {}, d_values[4][kC] = {};
  const std::int32_t end = end_of_queries(e, first / e.heads, plain_tile(e, key));
  for (std::int32_t any_head = first; any_head < first + e.group; ++any_head) {
    const HeadRows head(e, any_head);
    for (std::int32_t query = key; query < end; query += kPlainTile) {
      float weights[4][4], d_scores[4][4];
      plain_gradients(call, head, any_head, query, key, slices, weights, d_scores);
      store_weights<false>(weights, shared);
      multiply_plain_weights(d_values, slices, shared, call.rows_of_d_out(head, query), column);
      store_weights<false>(d_scores, shared);
      multiply_plain_weights(d_keys, slices, shared, query_rows(e, call.in.queries, head, query), column);
    }
  }
  const PlainRows rows = key_rows(e, {}, HeadRows(e, first), key);
  if (call.out.keys != nullptr) {
    write_plain_rows(d_keys, {e.scale, e.scale, e.scale, e.scale}, call.to_rows(call.out.keys, rows), column);
  }
  if (call.out.values != nullptr) write_plain_rows(d_values, {1, 1, 1, 1}, call.to_rows(call.out.values, rows), column);
}

// Gradients of queries, over tiles of keys in ascending order.
template <int kC>
__global__ void __launch_bounds__(kPlainThreads, 2) plain_queries_kernel(const PlainBackward call) {
  const AttentionExtents& e = call.extents;
  const BlockWork work(call.order, blockIdx.x);
  const HeadRows head(e, work.head);
  const std::int32_t query = (call.order.tiles - 1 - work.turn) * kPlainTile;
  const int column = static_cast<int>(blockIdx.y) * 16 * kC;
  float* shared = shared_memory<float>();
  float* slices = shared + kPlainTile * kPlainRow;
  float d_queries[4][kC] = {};
  std::int32_t key = first_key<kPlainTile>(e, work.head / e.heads, plain_tile(e, query));
  for (; key <= query; key += kPlainTile) {
    float weights[4][4], d_scores[4][4];
    plain_gradients(call, head, work.head, query, key, slices, weights, d_scores);
    store_weights<true>(d_scores, shared);
    multiply_plain_weights(d_queries, slices, shared, key_rows(e, call.in.keys, head, key), column);
  }
  write_plain_rows(d_queries, {e.scale, e.scale, e.scale, e.scale},
                   call.to_rows(call.out.queries, query_rows(e, {}, head, query)), column);
}

}  // namespace plimsoll::cuda
