// Products of small packed tiles with accumulators in registers. They skip the pairs that causal attention masks: query `row` of
// a tile sees key `column` if column <= row + diagonal. Rows are computed in whole groups, columns in whole vectors, so buffers
// have room up to the next multiple of kTileStep. Included once for each Highway target.
//
//   keys      0 1 2 3 4 5
//   query 0   x x . . . .      diagonal 1: x is computed
//   query 1   x x x . . .
//   query 2   x x x x . .
#if defined(PLIMSOLL_OPS_ATTENTION_TILE_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_ATTENTION_TILE_GEMM_INL_H_
#undef PLIMSOLL_OPS_ATTENTION_TILE_GEMM_INL_H_
#else
#define PLIMSOLL_OPS_ATTENTION_TILE_GEMM_INL_H_
#endif

#include <algorithm>

#include "device/cpu/ahead-inl.h"
#include "device/cpu/floats-inl.h"
#include "device/cpu/register_block-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// Columns (in vectors) and rows of one block of accumulators: 24 of 32 registers with AVX-512, 12 of 16 elsewhere.
inline constexpr int kMaxVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;
template <int N>
inline constexpr int kBlockRows = HWY_TARGET == HWY_AVX3 ? (N == 1 ? 16 : 24 / N) : 12 / N;

// The number of vectors of the next block if `left` remain. It avoids a last block of one vector.
HWY_INLINE int block_vectors(int left) {
  if (kMaxVectors == 4 && (left == 5 || left == 6 || left == 9)) return 3;
  return std::min(left, kMaxVectors);
}

HWY_INLINE int vectors_for(int columns) { return (columns + kLanes - 1) / kLanes; }

// c [M x N vectors] = start + a [M x depth] * b [depth x N vectors]; with kTransposed, a is stored as [depth x M].
template <int M, int N, bool kTransposed, Start kStart>
HWY_NOINLINE void multiply_block(int depth, const float* HWY_RESTRICT a, std::int64_t lda, const float* HWY_RESTRICT b,
                                 std::int64_t ldb, float* HWY_RESTRICT c, std::int64_t ldc, const float* HWY_RESTRICT factor,
                                 Ahead& ahead) {
  Block<M, N> sum;
  sum.template start<kStart>(c, ldc, factor);
  const auto add = [&]() HWY_ATTR {
    RowBlock<N> right;
    right.load(b);
    sum.update(a, kTransposed ? 1 : lda, right);
    a += kTransposed ? lda : 1;
    b += ldb;
  };
  Ahead::Lines lines = ahead.take(depth / kStepsPerLine);
  for (int k = depth / kStepsPerLine; k > 0; --k) {
    lines.fetch_next();
    for (int i = 0; i < kStepsPerLine; ++i) add();
  }
  for (int k = depth % kStepsPerLine; k > 0; --k) add();
  sum.store(c, ldc);
}

struct Matrix {
  float* data;
  std::int64_t stride;  // floats from row to row

  HWY_INLINE float* at(std::int64_t row, std::int64_t column) const { return data + row * stride + column; }
};

struct Visible {
  int queries, keys;
  int diagonal;  // first query - first key of the tile, not negative, at most the keys of a tile; these where all is seen
};

template <int M, int N>
HWY_INLINE void scores_block(int vectors, int depth, const Matrix& a, const Matrix& b, const Matrix& c, int row, int column,
                             Ahead& ahead) {
  if constexpr (N > 1) {
    if (vectors < N) return scores_block<M, N - 1>(vectors, depth, a, b, c, row, column, ahead);
  }
  multiply_block<M, N, false, Start::zero>(depth, a.at(row, 0), a.stride, b.at(0, column), b.stride, c.at(row, column), c.stride,
                                           nullptr, ahead);
}

template <int N>
HWY_INLINE void scores_columns(const Visible& tile, int depth, const Matrix& a, const Matrix& b, const Matrix& c, int column,
                               Ahead& ahead) {
  constexpr int M = kBlockRows<N>;
  for (int row = 0; row < tile.queries; row += M) {
    const int limit = std::min(tile.keys, tile.diagonal + row + M);
    if (limit > column) scores_block<M, N>(std::min(N, vectors_for(limit - column)), depth, a, b, c, row, column, ahead);
  }
}

// c [queries x keys] = a [queries x depth] * b [depth x keys] for visible pairs; other columns of a row are not written.
HWY_INLINE void multiply_scores(const Visible& tile, int depth, const Matrix& a, const Matrix& b, const Matrix& c, Ahead& ahead) {
  const int vectors = vectors_for(tile.keys);
  for (int done = 0, step = 0; done < vectors; done += step) {
    step = block_vectors(vectors - done);
    const int column = done * kLanes;
    if (step == 1) scores_columns<1>(tile, depth, a, b, c, column, ahead);
    if (step == 2) scores_columns<2>(tile, depth, a, b, c, column, ahead);
    if constexpr (kMaxVectors == 4) {
      if (step == 3) scores_columns<3>(tile, depth, a, b, c, column, ahead);
      if (step == 4) scores_columns<4>(tile, depth, a, b, c, column, ahead);
    }
  }
}

template <int N, Start kStart>
HWY_INLINE void by_query_columns(const Visible& tile, const Matrix& a, const Matrix& b, const Matrix& c, int column,
                                 const float* factor, Ahead& ahead) {
  constexpr int M = kBlockRows<N>;
  for (int row = 0; row < tile.queries; row += M) {
    const int depth = std::min(tile.keys, tile.diagonal + row + M);
    multiply_block<M, N, false, kStart>(depth, a.at(row, 0), a.stride, b.at(0, column), b.stride, c.at(row, column), c.stride,
                                        kStart == Start::scale ? factor + row : nullptr, ahead);
  }
}

template <int N, Start kStart>
HWY_INLINE void by_key_columns(const Visible& tile, const Matrix& a, const Matrix& b, const Matrix& c, int column, const float*,
                               Ahead& ahead) {
  constexpr int M = kBlockRows<N>;
  for (int row = 0; row < tile.keys; row += M) {
    const int begin = std::min(tile.queries, std::max(0, row - tile.diagonal));
    multiply_block<M, N, true, kStart>(tile.queries - begin, a.at(begin, row), a.stride, b.at(begin, column), b.stride,
                                       c.at(row, column), c.stride, nullptr, ahead);
  }
}

// kByKey false: c [queries x columns] = start + a * b [keys x columns]. kByKey true: c [keys x columns] = start + a^T * b
// [queries x columns]. Masked elements of a [queries x keys] are zero.
template <bool kByKey, Start kStart>
HWY_INLINE void multiply_weights(const Visible& tile, int columns, const Matrix& a, const Matrix& b, const Matrix& c,
                                 Ahead& ahead, const float* factor = nullptr) {
  const int vectors = vectors_for(columns);
  for (int done = 0, step = 0; done < vectors; done += step) {
    step = block_vectors(vectors - done);
    const int column = done * kLanes;
    if constexpr (kByKey) {
      if (step == 1) by_key_columns<1, kStart>(tile, a, b, c, column, factor, ahead);
      if (step == 2) by_key_columns<2, kStart>(tile, a, b, c, column, factor, ahead);
      if constexpr (kMaxVectors == 4) {
        if (step == 3) by_key_columns<3, kStart>(tile, a, b, c, column, factor, ahead);
        if (step == 4) by_key_columns<4, kStart>(tile, a, b, c, column, factor, ahead);
      }
    } else {
      if (step == 1) by_query_columns<1, kStart>(tile, a, b, c, column, factor, ahead);
      if (step == 2) by_query_columns<2, kStart>(tile, a, b, c, column, factor, ahead);
      if constexpr (kMaxVectors == 4) {
        if (step == 3) by_query_columns<3, kStart>(tile, a, b, c, column, factor, ahead);
        if (step == 4) by_query_columns<4, kStart>(tile, a, b, c, column, factor, ahead);
      }
    }
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_ATTENTION_TILE_GEMM_INL_H_
