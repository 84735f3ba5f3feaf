#include "device/cpu/gemm_tiled.h"

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "base/error.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/gemm_tiled.cpp"
#include <hwy/foreach_target.h>

#include "device/cpu/ahead-inl.h"
#include "device/cpu/register_block-inl.h"
#include "device/cpu/transpose-inl.h"
#include "hwy/highway.h"

#ifndef PLIMSOLL_GEMM_TILED_ONCE
#define PLIMSOLL_GEMM_TILED_ONCE
namespace plimsoll::cpu::tiled {

// The most elements of k and n in a block of B, which then fills half of a second-level cache. A transposed A is packed as well,
// again for each strip of columns, and usually has a long k. Its blocks are short in k, and their sums are added to C while the
// next one is fetched.
constexpr std::int64_t kDepth = 768, kStrip = 384;
constexpr std::int64_t kDepthTransposed = 128, kStripTransposed = 768;
constexpr std::int64_t kRows = 2048;        // most rows of a task
constexpr std::int64_t kPanelRows = 16;     // rows of a packed, transposed A: a cache line for each step of k
constexpr std::int64_t kPanelColumns = 48;  // columns of a packed B: three of the widest vectors
constexpr std::int64_t kDecoded = 256;      // elements of a row of B that are decoded at a time

// The size of even pieces of n, none larger than `most`, each but the last a multiple of `step`.
constexpr std::int64_t even_piece(std::int64_t n, std::int64_t most, std::int64_t step) {
  return round_up(ceil_div(n, ceil_div(n, most)), step);
}

// The cut of a product into tasks and blocks. Bits depend on the depth of blocks alone, which the shape decides.
struct Cut {
  std::int64_t depth, strip, rows;  // k of a block, columns and rows of a task
  std::int64_t strips, bands;

  Cut(const GemmShape& shape, int threads)
      : depth(even_piece(shape.k, shape.transpose_a ? kDepthTransposed : kDepth, 8)),
        strip(even_piece(shape.n, shape.transpose_a ? kStripTransposed : kStrip, kPanelColumns)),
        strips(ceil_div(shape.n, strip)),
        bands(ceil_div(shape.m, kRows)) {
    while (shape.batch * strips * bands % threads != 0 && bands < threads) ++bands;
    rows = round_up(ceil_div(shape.m, bands), kPanelRows);
    bands = ceil_div(shape.m, rows);
  }

  std::int64_t tasks(const GemmShape& shape) const { return shape.batch * strips * bands; }
  std::int64_t b_floats() const { return depth * strip; }
  std::int64_t a_floats(const GemmShape& shape) const { return shape.transpose_a ? depth * kPanelRows : 0; }
};

// Decoded elements before they are packed: pieces of the rows of a panel where B is transposed, else of one row.
constexpr std::int64_t decoded_floats(const GemmShape& shape) { return shape.transpose_b ? kPanelColumns * kDecoded : kStrip; }

struct Product {
  GemmShape shape;
  Cut cut;
  const float *a, *b, *bias;
  float* c;
  const StoredMatrix* matrix = nullptr;  // the format of B at `stored`; null: B is fp32 at `b`
  const std::byte* stored = nullptr;
};

// A part of a task: one block of k for its element of the batch and its columns.
struct Slice {
  std::int64_t element = 0, column = 0, columns = 0, k = 0, depth = 0;
};

}  // namespace plimsoll::cpu::tiled
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using tiled::Cut;
using tiled::kDecoded;
using tiled::kPanelRows;
using tiled::Product;
using tiled::Slice;

// A register tile is kTileRows x three vectors: with AVX-512 24 sums, three vectors of B and one of A.
inline constexpr int kVectors = 3;
inline constexpr int kTileRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;
inline constexpr std::int64_t kTileColumns = kVectors * kLanes;

// The destination of a tile of sums.
struct Target {
  float* c;
  std::int64_t stride, columns;  // elements from row to row; columns of C from c on
  const float* bias;             // of these columns, or null
  bool add;

  HWY_INLINE void put(Floats sum, float* to, std::int64_t column) const {
    if (columns < column + kLanes) return put_part(sum, to, column);
    if (bias != nullptr) sum = hn::Add(sum, hn::LoadU(F32(), bias + column));
    if (add) sum = hn::Add(sum, hn::LoadU(F32(), to));
    hn::StoreU(sum, F32(), to);
  }

  HWY_NOINLINE void put_part(Floats sum, float* to, std::int64_t column) const {
    const std::int64_t count = columns - column;
    if (bias != nullptr) sum = hn::Add(sum, load_part(bias + column, count));
    if (add) sum = hn::Add(sum, load_part(to, count));
    store_part(sum, to, count);
  }
};

template <int N>
HWY_INLINE void put_row(const RowBlock<N>& sums, const Target& target, float* to, std::int64_t column) {
  if constexpr (N > 0) {
    target.put(sums.first, to, column);
    put_row<N - 1>(sums.rest, target, to + kLanes, column + kLanes);
  }
}

template <int M, int N>
HWY_INLINE void put_rows(const Block<M, N>& sums, const Target& target, float* to) {
  if constexpr (M > 0) {
    put_row<N>(sums.row, target, to, 0);
    put_rows<M - 1, N>(sums.rest, target, to + target.stride);
  }
}

// Multiplies a tile over a block of k. A[i, p] is a[p * kPanelRows + i] if kPacked, else a[i * stride + p]; B is [depth][N
// vectors].
template <int M, int N, bool kPacked>
HWY_NOINLINE void multiply_tile(std::int64_t depth, const float* HWY_RESTRICT a, std::int64_t stride, const float* HWY_RESTRICT b,
                                const Target& target, Ahead::Lines lines) {
  constexpr std::int64_t kStep = kPacked ? kPanelRows : 1;
  for (int i = 0; i < M; ++i) {
    for (std::int64_t j = 0; j < N * kLanes; j += kLineFloats) hwy::Prefetch(target.c + i * target.stride + j);
  }
  Block<M, N> sums;
  sums.template start<Start::zero>(nullptr, 0, nullptr);
  const auto add = [&](std::int64_t p) HWY_ATTR {
    RowBlock<N> right;
    right.load(b + p * N * kLanes);
    sums.update(a + p * kStep, kPacked ? 1 : stride, right);
  };
  std::int64_t p = 0;
  for (; p + kStepsPerLine <= depth; p += kStepsPerLine, a += kStepsPerLine * kStep, b += kStepsPerLine * N * kLanes) {
    lines.fetch_next();
    for (std::int64_t i = 0; i < kStepsPerLine; ++i) add(i);
  }
  for (; p < depth; ++p, a += kStep, b += N * kLanes) add(0);
  put_rows<M, N>(sums, target, target.c);
}

// Multiplies up to M rows; fewer than M go in tiles of 8, 4, 2 and 1. Partial panels use fewer vectors.
template <int M, int N, bool kPacked>
HWY_INLINE void multiply_rows(std::int64_t rows, std::int64_t depth, const float* a, std::int64_t stride, const float* b,
                              Target target, Ahead::Lines lines) {
  if constexpr (M > 0) {
    if (rows >= M) {
      multiply_tile<M, N, kPacked>(depth, a, stride, b, target, lines);
      rows -= M, a += M * (kPacked ? 1 : stride), target.c += M * target.stride;
    }
    if (rows > 0) multiply_rows<M / 2, N, kPacked>(rows, depth, a, stride, b, target, lines);
  }
}

template <int N, bool kPacked>
HWY_INLINE void multiply(std::int64_t rows, std::int64_t depth, const float* a, std::int64_t stride, const float* b,
                         const Target& target, Ahead::Lines lines) {
  if constexpr (N > 1) {
    if (target.columns <= (N - 1) * kLanes) return multiply<N - 1, kPacked>(rows, depth, a, stride, b, target, lines);
  }
  multiply_rows<kTileRows, N, kPacked>(rows, depth, a, stride, b, target, lines);
}

HWY_INLINE const float* block_of_b(const Product& product, const Slice& slice) {
  const GemmShape& shape = product.shape;
  const float* const b = product.b + slice.element * shape.k * shape.n;
  return shape.transpose_b ? b + slice.column * shape.k + slice.k : b + slice.k * shape.n + slice.column;
}

// Panels [depth][width] of B, one after another; columns past n are zero.
HWY_INLINE void pack_b(const Product& product, const Slice& slice, float* HWY_RESTRICT to) {
  const GemmShape& shape = product.shape;
  const float* const b = block_of_b(product, slice);
  for (std::int64_t column = 0; column < slice.columns; column += kTileColumns) {
    const std::int64_t columns = std::min(kTileColumns, slice.columns - column), width = round_up(columns, kLanes);
    float* HWY_RESTRICT out = to + column * slice.depth;
    const float* HWY_RESTRICT in = b + column * (shape.transpose_b ? shape.k : 1);
    if (shape.transpose_b) {
      transpose(in, shape.k, columns, slice.depth, out, width);
    } else if (columns == kTileColumns) {
      for (std::int64_t p = 0; p < slice.depth; ++p) {
        RowBlock<kVectors> row;
        row.load_unaligned(in + p * shape.n);
        row.store(out + p * kTileColumns);
      }
    } else {
      for (std::int64_t p = 0; p < slice.depth; ++p) std::copy_n(in + p * shape.n, columns, out + p * width);
    }
    for (std::int64_t p = 0; columns < width && p < slice.depth; ++p) {
      std::fill(out + p * width + columns, out + (p + 1) * width, 0.0F);
    }
  }
}

// The same for a stored B, decoded into `room` first.
HWY_INLINE void decode_b(const Product& product, const Slice& slice, float* HWY_RESTRICT to, float* HWY_RESTRICT room) {
  const auto read = [&](std::int64_t first, float* out, std::int64_t count) {
    read_elements(*product.matrix, product.stored, first, {out, static_cast<std::size_t>(count)});
  };
  const GemmShape& shape = product.shape;
  const std::int64_t all = round_up(slice.columns, kLanes);
  for (std::int64_t p = 0; !shape.transpose_b && p < slice.depth; ++p) {
    read((slice.k + p) * shape.n + slice.column, room, slice.columns);
    std::fill(room + slice.columns, room + all, 0.0F);
    for (std::int64_t column = 0; column < all; column += kTileColumns) {
      const std::int64_t width = std::min(kTileColumns, all - column);
      for (std::int64_t i = 0; i < width; i += kLanes) {
        hn::Store(hn::Load(F32(), room + column + i), F32(), to + column * slice.depth + p * width + i);
      }
    }
  }
  for (std::int64_t column = 0; shape.transpose_b && column < slice.columns; column += kTileColumns) {
    const std::int64_t columns = std::min(kTileColumns, slice.columns - column), width = round_up(columns, kLanes);
    float* HWY_RESTRICT out = to + column * slice.depth;
    for (std::int64_t p = 0; p < slice.depth; p += kDecoded) {
      const std::int64_t count = std::min(kDecoded, slice.depth - p);
      for (std::int64_t j = 0; j < columns; ++j) {
        read((slice.column + column + j) * shape.k + slice.k + p, room + j * kDecoded, count);
      }
      transpose(room, kDecoded, columns, count, out + p * width, width);
    }
    for (std::int64_t p = 0; columns < width && p < slice.depth; ++p) {
      std::fill(out + p * width + columns, out + (p + 1) * width, 0.0F);
    }
  }
}

// to [depth][kPanelRows] = the rows of a transposed A from `row` on; places past m are not written.
HWY_INLINE void pack_a(const GemmShape& shape, const float* a, std::int64_t row, const Slice& slice, float* HWY_RESTRICT to) {
  const float* HWY_RESTRICT in = a + slice.k * shape.m + row;
  const std::int64_t rows = std::min(kPanelRows, shape.m - row);
  for (std::int64_t p = 0; p < slice.depth; ++p, in += shape.m, to += kPanelRows) {
    if (rows == kPanelRows) {
      for (std::int64_t i = 0; i < kPanelRows; i += kLanes) hn::Store(hn::LoadU(F32(), in + i), F32(), to + i);
    } else {
      std::copy(in, in + rows, to);
    }
  }
}

// Multiplies a task's rows [begin, end) over one block of k.
template <bool kPacked>
HWY_INLINE void multiply_slice(const Product& product, const Slice& slice, std::int64_t begin, std::int64_t end,
                               const float* b_panels, float* a_panel, Ahead& ahead) {
  const GemmShape& shape = product.shape;
  const float* const a = product.a + slice.element * shape.m * shape.k;
  float* const c = product.c + slice.element * shape.m * shape.n;
  const bool add = shape.accumulate || slice.k > 0;
  const std::int64_t steps = slice.depth / kStepsPerLine;
  for (std::int64_t panel = begin; panel < end; panel += kPanelRows) {
    if (kPacked) pack_a(shape, a, panel, slice, a_panel);
    const bool fetch = !kPacked || 2 * (panel - begin) >= end - begin;  // late, so that the sums do not displace it
    const std::int64_t panel_end = std::min(end, panel + kPanelRows);
    for (std::int64_t row = panel; row < panel_end; row += kTileRows) {
      const float* left = kPacked ? a_panel + row - panel : a + row * shape.k + slice.k;
      for (std::int64_t column = 0; column < slice.columns; column += kTileColumns) {
        const std::int64_t at = slice.column + column;
        const Target target{.c = c + row * shape.n + at,
                            .stride = shape.n,
                            .columns = slice.columns - column,
                            .bias = product.bias != nullptr && slice.k == 0 ? product.bias + at : nullptr,
                            .add = add};
        multiply<kVectors, kPacked>(std::min<std::int64_t>(kTileRows, panel_end - row), slice.depth, left, shape.k,
                                    b_panels + column * slice.depth, target, fetch ? ahead.take(steps) : ahead.idle());
      }
    }
  }
}

// The first slice of a task.
HWY_INLINE Slice first_slice(const Product& product, std::int64_t task) {
  const Cut& cut = product.cut;
  const std::int64_t column = task / cut.bands % cut.strips * cut.strip;
  return {task / (cut.strips * cut.bands), column, std::min(cut.strip, product.shape.n - column), 0,
          std::min(cut.depth, product.shape.k)};
}

// The next block of k of the same task, of depth 0 after the last.
HWY_INLINE Slice next_slice(const Product& product, Slice slice) {
  slice.k += slice.depth;
  slice.depth = std::min(product.cut.depth, product.shape.k - slice.k);
  return slice;
}

// The memory to fetch for the packing of a slice.
HWY_INLINE Ahead packed_in(const Product& product, const Slice& slice, std::int64_t begin, std::int64_t end) {
  const GemmShape& shape = product.shape;
  if (product.matrix != nullptr) return Ahead(product.a);
  Ahead ahead(product.b);
  const float* const b = block_of_b(product, slice);
  ahead.add(shape.transpose_b ? Region{b, shape.k, slice.columns, slice.depth} : Region{b, shape.n, slice.depth, slice.columns});
  if (shape.transpose_a) {
    ahead.add({product.a + (slice.element * shape.k + slice.k) * shape.m + begin, shape.m, slice.depth, end - begin});
  }
  return ahead;
}

// Rows and columns of the result of one element of the batch.
void multiply_task(const Product& product, const SlotTask& task, float* scratch) {
  const GemmShape& shape = product.shape;
  const std::int64_t begin = task.task % product.cut.bands * product.cut.rows, end = std::min(shape.m, begin + product.cut.rows);
  float *const b_panels = scratch, *const a_panel = scratch + product.cut.b_floats();
  const auto multiply_all = shape.transpose_a ? multiply_slice<true> : multiply_slice<false>;
  for (Slice slice = first_slice(product, task.task); slice.depth > 0; slice = next_slice(product, slice)) {
    Slice next = next_slice(product, slice);
    if (next.depth == 0 && task.following >= 0) next = first_slice(product, task.following);
    Ahead ahead = packed_in(product, next, begin, end);
    if (product.matrix == nullptr) {
      pack_b(product, slice, b_panels);
    } else {
      decode_b(product, slice, b_panels, a_panel);
    }
    multiply_all(product, slice, begin, end, b_panels, a_panel, ahead);
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(multiply_task);

// Floats of a thread's slot.
std::int64_t slot_floats(const GemmShape& shape, const tiled::Cut& cut, bool decodes) {
  return cut.b_floats() + (decodes ? tiled::decoded_floats(shape) : cut.a_floats(shape));
}

Bytes scratch_of(const GemmShape& shape, int threads, bool decodes) {
  const tiled::Cut cut(shape, threads);
  return Bytes{slot_floats(shape, cut, decodes) * 4 * std::min<std::int64_t>(cut.tasks(shape), threads)};
}

void run_product(const tiled::Product& product, int threads, std::byte* scratch) {
  const GemmShape& shape = product.shape;
  const std::int64_t slot = slot_floats(shape, product.cut, product.matrix != nullptr);
  const auto run = &HWY_DYNAMIC_DISPATCH(multiply_task);
  // Slots have the size for the largest task. If the last slot gets only smaller tasks, its end would stay unwritten. An audit,
  // which looks for the highest changed byte, would then find less than planned.
  const std::int64_t all = scratch_of(shape, threads, product.matrix != nullptr).n;
  if (all > 0) std::memset(scratch + all - kCacheLine.n, 0, static_cast<std::size_t>(kCacheLine.n));
  parallel_slots(product.cut.tasks(shape), threads,
                 [&](const SlotTask& task) { run(product, task, reinterpret_cast<float*>(scratch) + task.slot * slot); });
}

}  // namespace

Bytes tiled_gemm_scratch(const GemmShape& shape, int threads) { return scratch_of(shape, threads, /*decodes=*/false); }

void run_tiled_gemm(const GemmShape& shape, int threads, const float* a, const float* b, const float* bias, float* c,
                    std::byte* scratch) {
  run_product({shape, tiled::Cut(shape, threads), a, b, shape.bias ? bias : nullptr, c}, threads, scratch);
}

Bytes decoding_gemm_scratch(const GemmShape& shape, int threads) { return scratch_of(shape, threads, /*decodes=*/true); }

void run_decoding_gemm(const GemmShape& shape, int threads, const float* a, const StoredMatrix& matrix, const std::byte* b,
                       const float* bias, float* c, std::byte* scratch) {
  ensure(!shape.transpose_a && shape.batch == 1, "gemm", "what is decoded is multiplied from the right, and alone");
  run_product({shape, tiled::Cut(shape, threads), a, nullptr, shape.bias ? bias : nullptr, c, &matrix, b}, threads, scratch);
}

}  // namespace plimsoll::cpu
#endif
