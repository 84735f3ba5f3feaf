// d_table[token] += the rows of dy at the token's positions, in ascending order, without atomics on floats. Atomics on integers
// give each row of the table a place for its positions, which are then sorted. The place differs from run to run, but neither the
// positions nor the sums do. Positions are added in lists of up to 32, so that a frequent token does not take long; the sums of a
// long row's lists are added after that.
#pragma once

#include "ops/embedding/cuda.h"
#include "ops/embedding/table.cuh"
#include "ops/reduce/row.cuh"

namespace plimsoll::cuda {

inline constexpr int kList = CudaTokenGradientLayout::kList;
static_assert(kList == kWarp);

struct alignas(16) TokenList {
  std::int32_t row;           // of the table; -1: the sum of a part of a long row
  std::int32_t begin, count;  // range of the ordered positions
  std::int32_t unused;
};

struct TokenLists {
  std::int64_t tokens, width;
  TableRange rows;
  bool add;              // adds to the table instead of writing it
  std::int64_t padding;  // the token that adds nothing; -1: none
  const std::int32_t* which;
  const float* dy;
  float* table;  // begins with `rows`
  // Per row of the table; per position; of positions in order of their rows, any order and ascending.
  std::int32_t *counts, *starts, *arrivals, *places, *ordered;
  std::int32_t* cursors;  // of places, lists and long rows
  TokenList *lists, *long_rows;
  float* sums;  // sums of full lists, at begin / 32: they begin at least 32 positions apart

  TokenLists(const CudaTokenGradientLayout& layout, const TableRange& rows, bool add, const KernelCall& call)
      : tokens(layout.tokens),
        width(layout.width),
        rows(rows),
        add(add),
        padding(layout.padding),
        which(call.in<std::int32_t>(0)),
        dy(call.in(1)),
        table(call.out(0)) {
    const auto at = [&]<class T>(T*& pointer, Bytes offset) { pointer = reinterpret_cast<T*>(call.scratch + offset.n); };
    at(counts, layout.counts), at(starts, layout.starts), at(arrivals, layout.arrivals), at(places, layout.places);
    at(lists, layout.lists), at(long_rows, layout.long_rows), at(sums, layout.sums);
    ordered = arrivals;  // arrivals are read before `ordered` is written
    cursors = counts + layout.rows;
  }

  // Calls f(i, row) for each position whose row is in this call.
  template <class F>
  __device__ __forceinline__ void for_positions(F f) const {
    for_items(tokens, [&](std::int64_t i) {
      const std::int32_t token = which[i];
      if (rows.contains(token) && token != padding)
        f(static_cast<std::int32_t>(i), static_cast<std::int32_t>(token - rows.begin));
    });
  }
};

enum TokenCursor : int { kPlaceCursor, kListCursor, kLongCursor };
static_assert(kLongCursor + 1 == CudaTokenGradientLayout::kCursors);

static __global__ void __launch_bounds__(kTableThreads) clear_counts_kernel(TokenLists t) {
  for_items(t.rows.count, [&](std::int64_t row) { t.counts[row] = 0; });
  if (thread_of_grid() < CudaTokenGradientLayout::kCursors) t.cursors[thread_of_grid()] = 0;
}

static __global__ void __launch_bounds__(kTableThreads) count_tokens_kernel(TokenLists t) {
  t.for_positions([&](std::int32_t i, std::int32_t row) { t.arrivals[i] = atomicAdd(t.counts + row, 1); });
}

// The first position to arrive at a row takes a place for the row's positions, and makes its lists.
static __global__ void __launch_bounds__(kTableThreads) make_lists_kernel(TokenLists t) {
  t.for_positions([&](std::int32_t i, std::int32_t row) {
    if (t.arrivals[i] != 0) return;
    const std::int32_t count = t.counts[row], begin = atomicAdd(t.cursors + kPlaceCursor, count);
    t.starts[row] = begin;
    if (count <= kList) {
      t.lists[atomicAdd(t.cursors + kListCursor, 1)] = {row, begin, count, 0};
      return;
    }
    const std::int32_t full = count / kList, first = atomicAdd(t.cursors + kListCursor, full);
    for (std::int32_t k = 0; k < full; ++k) t.lists[first + k] = {-1, begin + k * kList, kList, 0};
    t.long_rows[atomicAdd(t.cursors + kLongCursor, 1)] = {row, begin, count, 0};
  });
}

static __global__ void __launch_bounds__(kTableThreads) place_positions_kernel(TokenLists t) {
  t.for_positions([&](std::int32_t i, std::int32_t row) { t.places[t.starts[row] + t.arrivals[i]] = i; });
}

static __global__ void __launch_bounds__(kTableThreads) order_positions_kernel(TokenLists t) {
  t.for_positions([&](std::int32_t i, std::int32_t row) {
    const std::int32_t begin = t.starts[row], count = t.counts[row];
    std::int32_t before = 0;
    load_ahead<8>(
        begin, begin + count, 1, [&](int k) { return t.places[k]; }, [&](int, std::int32_t other) { before += other < i; });
    t.ordered[begin + before] = i;
  });
}

// The sum of up to 32 rows of dy; each lane has the position of one.
template <int kElements>
__device__ __forceinline__ Pack<float, kElements> sum_of_list(const TokenLists& t, std::int32_t begin, std::int32_t count,
                                                              std::int64_t column) {
  const auto lane = static_cast<std::int32_t>(lane_of_warp());
  const std::int32_t mine = lane < count ? t.ordered[begin + lane] : 0;
  const float* const from = t.dy + (column < t.width ? column : 0);  // lanes past the end read the first column
  Pack<float, kElements> sum{};
  load_ahead<8>(
      0, count, 1,
      [&](int k) {
        const std::int64_t position = __shfl_sync(kAllLanes, mine, static_cast<unsigned>(k));
        return load_pack<kElements>(from + position * t.width);
      },
      [&](int, const Pack<float, kElements>& row) { add_elements(row, sum); });
  return sum;
}

template <int kElements>
__device__ __forceinline__ void add_to_table(const TokenLists& t, std::int32_t row, std::int64_t column,
                                             Pack<float, kElements> sum) {
  float* const to = t.table + row * t.width + column;
  if (t.add) add_elements(load_pack<kElements>(to), sum);
  store_pack(sum, to);
}

// A warp has a strip of a list's columns.
template <int kElements>
__global__ void __launch_bounds__(kTableThreads) add_lists_kernel(TokenLists t) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kWarp + lane_of_warp()) * kElements;
  for_items_of_warps(t.cursors[kListCursor], [&](std::int64_t i) {
    const TokenList list = t.lists[i];
    const Pack<float, kElements> sum = sum_of_list<kElements>(t, list.begin, list.count, column);
    if (column >= t.width) return;
    if (list.row >= 0) return add_to_table<kElements>(t, list.row, column, sum);
    store_pack(sum, t.sums + list.begin / kList * t.width + column);
  });
}

template <int kElements>
__global__ void __launch_bounds__(kTableThreads) add_long_rows_kernel(TokenLists t) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kWarp + lane_of_warp()) * kElements;
  for_items_of_warps(t.cursors[kLongCursor], [&](std::int64_t i) {
    const TokenList row = t.long_rows[i];
    const std::int32_t full = row.count / kList, rest = row.count % kList;
    const Pack<float, kElements> of_rest = sum_of_list<kElements>(t, row.begin + full * kList, rest, column);
    if (column >= t.width) return;
    Pack<float, kElements> sum{};
    const float* const from = t.sums + row.begin / kList * t.width + column;
    load_ahead<8>(
        0, full, 1, [&](int k) { return load_pack<kElements>(from + k * t.width); },
        [&](int, const Pack<float, kElements>& of_list) { add_elements(of_list, sum); });
    add_elements(of_rest, sum);
    add_to_table<kElements>(t, row.row, column, sum);
  });
}

template <int kElements>
__global__ void __launch_bounds__(kTableThreads) clear_other_rows_kernel(TokenLists t) {
  for_items_of_warps(t.rows.count, [&](std::int64_t row) {
    if (t.counts[row] != 0) return;
    const Pack<float, kElements> zeros{};
    for (std::int64_t column = lane_of_warp() * kElements; column < t.width; column += kWarp * kElements) {
      store_pack(zeros, t.table + row * t.width + column);
    }
  });
}

template <int kElements>
void add_tokens(const TokenLists& t, void* stream) {
  const std::int64_t strips = ceil_div(t.width, std::int64_t{kWarp} * kElements);
  launch(clear_counts_kernel, table_grid(t.rows.count), stream, t);
  for (const auto kernel : {count_tokens_kernel, make_lists_kernel, place_positions_kernel, order_positions_kernel}) {
    launch(kernel, table_grid(t.tokens), stream, t);
  }
  launch(add_lists_kernel<kElements>, table_grid_of_warps(t.tokens, strips), stream, t);
  if (t.tokens > kList) launch(add_long_rows_kernel<kElements>, table_grid_of_warps(t.tokens / kList, strips), stream, t);
  if (!t.add) launch(clear_other_rows_kernel<kElements>, table_grid_of_warps(t.rows.count), stream, t);
}

}  // namespace plimsoll::cuda
