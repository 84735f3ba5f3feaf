// Tiles of attention on tensor cores: the layout of a head's rows in shared memory (wgmma.cuh), and products with them. A
// warpgroup has 64 rows, a warp 16 of these.
#pragma once

#include "device/cuda/wgmma.cuh"
#include "ops/attention/call.cuh"
#include "ops/attention/masks.cuh"

namespace plimsoll::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;

inline constexpr int kWarpRows = 16;

// The head of a block, and the first rows of the block, of the warps that multiply together and of a warp. A tile has kTile rows.
// The tiles with most work are the last ones of a head, or the first ones.
template <int kTile, bool kLastFirst>
struct TilePlace {
  std::int32_t head, begin, together, mine;

  // Can be made again later, so that it occupies no registers in between.
  __device__ __forceinline__ explicit TilePlace(const BlockOrder& order) {
    const BlockWork work(order, static_cast<std::uint32_t>(computed_here(static_cast<int>(blockIdx.x))));
    head = work.head;
    begin = (kLastFirst ? order.tiles - 1 - work.turn : work.turn) * kTile;
    const int thread = computed_here(static_cast<int>(threadIdx.x));
    mine = begin + thread / kWarp * kWarpRows;
    together = begin + thread / (4 * kWarp) * kGroupRows;
  }
  __device__ __forceinline__ Tokens tokens(const AttentionExtents& e) const {
    return {begin, begin + kTile < e.tokens ? begin + kTile : e.tokens};
  }
};

// The element of a tile of kRows rows at which a chunk of 16 bytes of a row begins. The chunks of eight rows in a column use all
// banks.
template <int kHead, int kRows>
__device__ __forceinline__ int swizzled(int row, int chunk) {
  static_assert(kHead == 64 || kHead == 128);
  if constexpr (kHead == kPartColumns) return row * kPartColumns + ((chunk ^ (row & 7)) << 3);
  return (chunk / 8 * kRows + row) * kPartColumns + ((chunk % 8 ^ (row & 7)) << 3);
}

// Orders: the row at a place of a tile of keys. They make the keys of a thread in a fragment neighbours, like words of noise.
struct InOrder {
  __device__ __forceinline__ int operator()(int place) const { return place; }
};
// Keys are columns: a thread has neighbours in two adjacent products of eight columns.
struct FourInColumns {
  __device__ __forceinline__ int operator()(int place) const {
    return (place & ~15) + place % 8 / 2 * 4 + place / 8 % 2 * 2 + place % 2;
  }
};
// Keys are rows: a thread has neighbours in rows eight apart.
template <int kHeld>
struct HeldInRows {
  __device__ __forceinline__ int operator()(int place) const {
    return (place & ~(8 * kHeld - 1)) + place % 8 * kHeld + place / 8 % kHeld;
  }
};

// A thread's part of copying tiles of kRows rows: chunks of 16 bytes that are kTogether rows apart. An order permutes the bits of
// a place, so that these rows have the same distances from the first one in each thread.
template <int kRows, int kHead, int kThreads, class Order>
struct RowCopies {
  static constexpr int kChunks = kHead / 8, kTogether = kThreads / kChunks;
  int row, chunk, to;  // its first row, the chunk of 16 bytes in it, and the element in a tile for it

  __device__ __forceinline__ RowCopies() {
    const int thread = computed_here(static_cast<int>(threadIdx.x)), place = thread / kChunks;
    row = Order{}(place);
    chunk = thread % kChunks;
    to = swizzled<kHead, kRows>(place, chunk);
  }
  // The thread's first 16 bytes of a tile, which begins at `tile`.
  template <class T>
  __device__ __forceinline__ const T* begin(const T* tile, std::int32_t stride) const {
    return tile + static_cast<std::int64_t>(row) * stride + chunk * 8;
  }
  // Begins to copy the rows, with zeros past the last of `rows`.
  template <class T>
  __device__ __forceinline__ void copy(T* tile, const T* from, std::int32_t stride, int rows) const {
#pragma unroll
    for (int i = 0; i < kRows / kTogether; ++i) {
      const int further = Order{}(i * kTogether);
      copy_later<16>(tile + to + i * kTogether * kPartColumns, from + further * stride, row >= rows - further);
    }
  }
};

template <int kRows, int kHead, int kThreads, class Order, class T>
__device__ __forceinline__ void copy_rows(T* tile, const T* from, std::int32_t stride, int rows) {
  const RowCopies<kRows, kHead, kThreads, Order> copies;
  copies.copy(tile, copies.begin(from, stride), stride, rows);
}

// The tiles of keys and values of a head, one after the other through two stages of shared memory.
template <class T, int kKeys, int kHead, int kThreads>
struct KeyWalk {
  static constexpr int kElements = kKeys * kHead;
  using Copies = RowCopies<kKeys, kHead, kThreads, FourInColumns>;
  T* stages;
  std::int64_t next;  // element of keys, and of values, at which this thread's share of the next tile of keys begins

  // Begins with the tile of this key.
  __device__ __forceinline__ KeyWalk(const AttentionExtents& e, T* stages, const HeadRows& head, std::int32_t key)
      : stages(stages), next(head.key_at(e, key + Copies().row) + Copies().chunk * 8) {}
  __device__ __forceinline__ T* keys_at(std::int32_t key) const { return stages + key / kKeys % 2 * (2 * kElements); }
  __device__ __forceinline__ T* values_at(std::int32_t key) const { return keys_at(key) + kElements; }
  // Called for each tile in order.
  __device__ __forceinline__ void copy_keys(const AttentionExtents& e, const OfOperands<const void*>& in, std::int32_t key) {
    Copies().copy(keys_at(key), static_cast<const T*>(in.keys) + next, e.key_stride, e.tokens - key);
    next += kKeys * e.key_stride;
  }
  // The values of the keys copied last.
  __device__ __forceinline__ void copy_values(const AttentionExtents& e, const OfOperands<const void*>& in,
                                              std::int32_t key) const {
    Copies().copy(values_at(key), static_cast<const T*>(in.values) + next - kKeys * e.key_stride, e.key_stride, e.tokens - key);
  }
  __device__ __forceinline__ void copy(const AttentionExtents& e, const OfOperands<const void*>& in, std::int32_t key) {
    copy_keys(e, in, key);
    copy_values(e, in, key);
  }
};

template <int kM, int kN>
__device__ __forceinline__ void set_zero(float (&c)[kM][kN][4]) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kN; ++j) c[i][j][0] = c[i][j][1] = c[i][j][2] = c[i][j][3] = 0;
  }
}

// C = A B^T: 16 rows of a tile of kRows, and the 8 kN rows of another one, along the head.
template <int kHead, int kRows, int kUnroll, int kN, class T>
__device__ __forceinline__ void multiply_rows(float (&c)[1][kN][4], const T* a, const T* b) {
  const int lane = static_cast<int>(lane_of_warp());
  const int a_at = computed_here(swizzled<64, kRows>(lane % 16, lane / 16));
  const int b_at = computed_here(swizzled<64, 8 * kN>(lane % 8 + lane / 16 * 8, lane / 8 % 2));
  set_zero(c);
#pragma unroll kUnroll
  for (int k = 0; k < kHead / 16; ++k) {
    const int part = k / 4 * kPartColumns;
    const Pairs rows = load_matrices<false>(a + part * kRows + (a_at ^ 16 * (k % 4)));
#pragma unroll
    for (int j = 0; j < kN / 2; ++j) {
      const Pairs columns = load_matrices<false>(b + part * 8 * kN + 16 * j * kPartColumns + (b_at ^ 16 * (k % 4)));
      mma<T>(c[0][2 * j], rows, columns.at[0], columns.at[1]);
      mma<T>(c[0][2 * j + 1], rows, columns.at[2], columns.at[3]);
    }
  }
}

// C += A B: A from registers, B the 16 kSteps rows of a tile.
template <int kHead, int kSteps, class T>
__device__ __forceinline__ void multiply_pairs(float (&c)[1][kHead / 8][4], const Pairs (&a)[kSteps], const T* b) {
  const int lane = static_cast<int>(lane_of_warp());
  const int b_at = computed_here(swizzled<64, 16 * kSteps>(lane % 16, lane / 16));
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
#pragma unroll
    for (int j = 0; j < kHead / 16; ++j) {
      const Pairs columns = load_matrices<true>(b + (j / 4 * 16 * kSteps + 16 * k) * kPartColumns + (b_at ^ 16 * (j % 4)));
      mma<T>(c[0][2 * j], a[k], columns.at[0], columns.at[1]);
      mma<T>(c[0][2 * j + 1], a[k], columns.at[2], columns.at[3]);
    }
  }
}

// A tile of rows, with the first row of the warps that multiply together and of a warp.
template <class T>
struct OwnRows {
  const T *together, *mine;

  __device__ __forceinline__ OwnRows further(int elements) const { return {together + elements, mine + elements}; }
};

// C = A B^T of a warp's 16 rows of a tile of kRows and the 64 of another one, by a warpgroup together.
template <int kHead, int kRows, class T>
__device__ __forceinline__ void multiply_rows_together(float (&c)[1][8][4], const OwnRows<T>& a, const T* b) {
  if (multiplies_together()) return group_multiply_rows<kHead, kRows>(c[0], a.together, b);
  multiply_rows<kHead, kRows, 4>(c, a.mine, b);
}

// C = A B^T and D = E F^T, likewise.
template <int kHead, int kRows, class T>
__device__ __forceinline__ void multiply_both(float (&c)[1][8][4], const OwnRows<T>& a, const T* b, float (&d)[1][8][4],
                                              const OwnRows<T>& e, const T* f) {
  if (multiplies_together()) return group_multiply_rows<kHead, kRows>(c[0], a.together, b, d[0], e.together, f);
  multiply_rows<kHead, kRows, 2>(c, a.mine, b);
  multiply_rows<kHead, kRows, 2>(d, e.mine, f);
}

// C += A B, by a warpgroup together.
template <int kN, class T>
__device__ __forceinline__ void multiply_pairs_together(float (&c)[1][kN][4], const Pair (&a)[1][8][2], const T* b) {
  Pairs rows[4];
  take_rows(rows, a[0]);
  if (multiplies_together()) return group_multiply_pairs(c[0], rows, b);
  multiply_pairs<8 * kN>(c, rows, b);
}

// Issues C = A B^T, and C += A B, as a group of products. Warps that do not multiply together compute at once.
template <int kHead, int kRows, class T>
__device__ __forceinline__ void issue_rows_together(float (&c)[1][8][4], const OwnRows<T>& a, const T* b) {
  if (!multiplies_together()) return multiply_rows<kHead, kRows, 4>(c, a.mine, b);
  hold_registers(c[0]);
  begin_products();
  issue_rows<kHead, kRows>(c[0], a.together, b);
  commit_products();
}
template <int kN, class T>
__device__ __forceinline__ void issue_pairs_together(float (&c)[1][kN][4], Pairs (&a)[4], const T* b) {
  if (!multiplies_together()) return multiply_pairs<8 * kN>(c, a, b);
  hold_registers(c[0]);
  begin_products();
  issue_pairs(c[0], a, b);
  commit_products();
}
template <int kPending>
__device__ __forceinline__ void wait_for_products_together() {
  if (multiplies_together()) wait_for_products<kPending>();
}

// Converts weights to operands of the next product.
template <class T, int kM, int kN>
__device__ __forceinline__ void round_to_pairs(const float (&c)[kM][kN][4], Pair (&pairs)[kM][kN][2]) {
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      pairs[i][j][0] = narrow_pair<T>(c[i][j][0], c[i][j][1]);
      pairs[i][j][1] = narrow_pair<T>(c[i][j][2], c[i][j][3]);
    }
  }
}

// Sets scores of keys (columns, FourInColumns) after the query of their row to -inf. `ahead`: first query - first key.
template <int kM, int kN>
__device__ __forceinline__ void hide_later_columns(float (&scores)[kM][kN][4], int ahead) {
  const int lane = static_cast<int>(lane_of_warp()), seen = ahead + lane / 4 - lane % 4 * 4;
#pragma unroll
  for (int i = 0; i < kM; ++i) {
#pragma unroll
    for (int j = 0; j < kN; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (j / 2 * 16 + j % 2 * 2 + e % 2 > seen + 16 * i + e / 2 * 8) scores[i][j][e] = -INFINITY;
      }
    }
  }
}

// The scores of 16 rows, with keys in columns (FourInColumns), whose keys the query of their row sees: bit 16 r + 2 j + e is that
// of scores[j][2 r + e]. `query` and `key` are those of the first row and column.
template <int kN>
__device__ __forceinline__ unsigned see_columns(const Visibility& visible, std::int32_t query, std::int32_t key) {
  static_assert(kN <= 8);
  const int lane = static_cast<int>(lane_of_warp()), row = computed_here(query + lane / 4);
  unsigned seen = 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int j = 0; j < kN; j += 2) seen |= visible.keys<4>(row + 8 * r, key + 8 * j + lane % 4 * 4) << (16 * r + 2 * j);
  }
  return seen;
}

// Sets the other scores to -inf.
template <int kN>
__device__ __forceinline__ void hide_columns(float (&scores)[kN][4], unsigned seen) {
#pragma unroll
  for (int j = 0; j < kN; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if ((seen >> (e / 2 * 16 + 2 * j + e % 2) & 1) == 0) scores[j][e] = -INFINITY;
    }
  }
}

// The tile of keys at `key` and a warp's queries from `mine` on, of those from `together` on that multiply it together.
template <int kKeys>
struct KeysAndQueries {
  std::int32_t key, mine, together;

  // True if order or window hide the tile.
  __device__ __forceinline__ bool hidden(const AttentionExtents& e) const {
    return key >= together + kGroupRows || together >= e.tokens || key + kKeys + e.window <= together + 1;
  }
  // True if more than order hides scores.
  __device__ __forceinline__ bool masked(const AttentionExtents& e) const {
    return e.segments != nullptr || key + e.window < mine + kWarpRows;
  }
  // The scores of a masked tile that stay. Computed before the scores, while registers are free.
  template <int kM, int kN>
  __device__ __forceinline__ void see(unsigned (&seen)[kM], const AttentionExtents& e, std::int32_t any_head) const {
    if (!masked(e)) return;
    const Visibility visible(e, any_head / e.heads);
#pragma unroll
    for (int i = 0; i < kM; ++i) seen[i] = see_columns<kN>(visible, mine + 16 * i, key);
  }
  // Hides scores. `seen`: by `see`.
  template <int kM, int kN>
  __device__ __forceinline__ void hide(const AttentionExtents& e, float (&scores)[kM][kN][4], const unsigned (&seen)[kM]) const {
    if (masked(e)) {
#pragma unroll
      for (int i = 0; i < kM; ++i) hide_columns(scores[i], seen[i]);
    } else if (key + kKeys > mine + 1) {
      hide_later_columns(scores, mine - key);
    }
  }
};

// The weights, with keys in columns (FourInColumns), that dropout keeps: bit 16 r + 2 j + e of kept[i] is that of c[i][j][2 r +
// e]. `query` and `key` are those of the first row and column. Computed before the scores, while registers are free.
template <int kM, int kN>
__device__ __forceinline__ void keep_columns(unsigned (&kept)[kM], const HeadMask& mask, std::int32_t query, std::int32_t key) {
  static_assert(kN <= 8);
  const int lane = static_cast<int>(lane_of_warp()), row = computed_here(query + lane / 4);
  std::uint64_t all = 0;
#pragma unroll(kM == 1 ? 2 : 1)
  for (int eight = 0; eight < 2 * kM; ++eight) {
    unsigned of_row = 0;
#pragma unroll
    for (int j = 0; j < kN; j += 2) {
      of_row |= (mask.four_keys(row + 8 * eight, key + 8 * j + lane % 4 * 4) & 15) << 2 * j;
    }
    all |= static_cast<std::uint64_t>(of_row) << 16 * eight;
  }
#pragma unroll
  for (int i = 0; i < kM; ++i) kept[i] = static_cast<unsigned>(all >> 32 * i);
}

// Rows of a head that a warp writes.
struct RowsTo {
  void* data;
  std::int64_t first;  // element of the first row
  std::int32_t stride;
  int rows;   // number of rows within the head
  bool wide;  // the result is fp32
};

// Writes row 8 r + lane / 4 of c to row order(.). Narrow results pass through `own`, 16 rows of a tile of kRows that only this
// warp still reads, so that each lane writes 16 bytes at once.
template <int kHead, int kRows, class Order, class T>
__device__ __forceinline__ void write_rows(const float (&c)[1][kHead / 8][4], T* own, const RowsTo& to, Order order) {
  const int lane = static_cast<int>(lane_of_warp());
  if (!to.wide) __syncwarp();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int place = 8 * r + lane / 4, row = order(place);
    float* wide = static_cast<float*>(to.data) + to.first + static_cast<std::int64_t>(row) * to.stride + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < kHead / 8; ++j) {
      const float* x = c[0][j] + 2 * r;
      if (!to.wide) {
        *reinterpret_cast<Pair*>(own + swizzled<kHead, kRows>(place, j) + lane % 4 * 2) = narrow_pair<T>(x[0], x[1]);
      } else if (row < to.rows) {
        *reinterpret_cast<Pack<float, 2>*>(wide + 8 * j) = {{x[0], x[1]}};
      }
    }
  }
  if (to.wide) return;
  __syncwarp();
  constexpr int kChunks = kHead / 8, kTogether = kWarp / kChunks;
#pragma unroll
  for (int i = 0; i < kWarpRows / kTogether; ++i) {
    const int place = i * kTogether + lane / kChunks, row = order(place), chunk = lane % kChunks;
    if (row >= to.rows) continue;
    store_pack(load_pack(own + swizzled<kHead, kRows>(place, chunk)),
               static_cast<T*>(to.data) + to.first + static_cast<std::int64_t>(row) * to.stride + chunk * 8);
  }
}

}  // namespace plimsoll::cuda
