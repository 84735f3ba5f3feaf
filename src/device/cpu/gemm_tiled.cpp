#include "device/cpu/gemm_tiled.h"

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "device/cpu/gemm.h"
#include "device/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/gemm_tiled.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef PLIMSOLL_GEMM_TILED_ONCE
#define PLIMSOLL_GEMM_TILED_ONCE
namespace plimsoll::cpu::tiled {

constexpr std::int64_t kRows = 6;      // of a register tile; 6 x 2 vectors fit into the 16 registers of AVX2
constexpr std::int64_t kColumns = 32;  // of a packed panel of B; a multiple of every tile's width
constexpr std::int64_t kDepth = 256;   // of a block of k: a panel of B is 32 KiB, a first-level cache
constexpr std::int64_t kTaskRows = 96, kTaskColumns = 256;

// One block [k0, k0 + depth) of the product of one element of the batch. A[i, p] is a[i * a_row + p * a_step]; likewise B.
struct Block {
  const float *a, *b;
  std::int64_t a_row, a_step, b_step, b_column;
  std::int64_t m, n, k0, depth;
  const float* bias;  // added where not null
  float* c;
  bool add;  // to what C holds
  float *a_panels, *b_panels;
};

// Panels of kRows rows: element (p, i) of panel t is at t * depth * kRows + p * kRows + i. Rows past m are zero.
inline void pack_a_panel(const Block& block, std::int64_t panel) {
  float* to = block.a_panels + panel * block.depth * kRows;
  for (std::int64_t i = 0; i < kRows; ++i) {
    const std::int64_t row = panel * kRows + i;
    for (std::int64_t p = 0; p < block.depth; ++p) {
      to[p * kRows + i] = row < block.m ? block.a[row * block.a_row + (block.k0 + p) * block.a_step] : 0.0F;
    }
  }
}

inline void pack_b_panel(const Block& block, std::int64_t panel) {
  float* to = block.b_panels + panel * block.depth * kColumns;
  const std::int64_t width = std::min(kColumns, block.n - panel * kColumns);
  const float* from = block.b + panel * kColumns * block.b_column + block.k0 * block.b_step;
  if (block.b_column == 1) {
    for (std::int64_t p = 0; p < block.depth; ++p) {
      std::copy_n(from + p * block.b_step, width, to + p * kColumns);
      std::fill(to + p * kColumns + width, to + (p + 1) * kColumns, 0.0F);
    }
    return;
  }
  for (std::int64_t j = 0; j < kColumns; ++j) {
    for (std::int64_t p = 0; p < block.depth; ++p) {
      to[p * kColumns + j] = j < width ? from[j * block.b_column + p * block.b_step] : 0.0F;
    }
  }
}

}  // namespace plimsoll::cpu::tiled
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::tiled::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Adds a tile of sums to C, which has `rows` x `columns` elements left at `c`.
inline void finish_tile(const Block& block, const float* sums, std::int64_t width, std::int64_t row, std::int64_t column) {
  const std::int64_t rows = std::min(kRows, block.m - row), columns = std::min(width, block.n - column);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* c = block.c + (row + i) * block.n + column;
    for (std::int64_t j = 0; j < columns; ++j) {
      float value = sums[i * width + j];
      if (block.bias != nullptr) value += block.bias[column + j];
      c[j] = block.add ? value + c[j] : value;
    }
  }
}

// The register tile: kRows rows x two vectors.
inline void multiply_tile(const Block& block, std::int64_t row, std::int64_t column) {
  const hn::CappedTag<float, kColumns / 2> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* a = block.a_panels + row / kRows * block.depth * kRows;
  const float* b = block.b_panels + column / kColumns * block.depth * kColumns + column % kColumns;
  auto s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00;
  auto s30 = s00, s31 = s00, s40 = s00, s41 = s00, s50 = s00, s51 = s00;
  for (std::int64_t p = 0; p < block.depth; ++p, a += kRows, b += kColumns) {
    const auto b0 = hn::Load(d, b), b1 = hn::Load(d, b + lanes);
    const auto a0 = hn::Set(d, a[0]), a1 = hn::Set(d, a[1]), a2 = hn::Set(d, a[2]);
    s00 = hn::MulAdd(a0, b0, s00), s01 = hn::MulAdd(a0, b1, s01);
    s10 = hn::MulAdd(a1, b0, s10), s11 = hn::MulAdd(a1, b1, s11);
    s20 = hn::MulAdd(a2, b0, s20), s21 = hn::MulAdd(a2, b1, s21);
    const auto a3 = hn::Set(d, a[3]), a4 = hn::Set(d, a[4]), a5 = hn::Set(d, a[5]);
    s30 = hn::MulAdd(a3, b0, s30), s31 = hn::MulAdd(a3, b1, s31);
    s40 = hn::MulAdd(a4, b0, s40), s41 = hn::MulAdd(a4, b1, s41);
    s50 = hn::MulAdd(a5, b0, s50), s51 = hn::MulAdd(a5, b1, s51);
  }
  alignas(64) float sums[kRows * kColumns];
  const std::int64_t width = 2 * lanes;
  hn::Store(s00, d, sums), hn::Store(s01, d, sums + lanes);
  hn::Store(s10, d, sums + width), hn::Store(s11, d, sums + width + lanes);
  hn::Store(s20, d, sums + 2 * width), hn::Store(s21, d, sums + 2 * width + lanes);
  hn::Store(s30, d, sums + 3 * width), hn::Store(s31, d, sums + 3 * width + lanes);
  hn::Store(s40, d, sums + 4 * width), hn::Store(s41, d, sums + 4 * width + lanes);
  hn::Store(s50, d, sums + 5 * width), hn::Store(s51, d, sums + 5 * width + lanes);
  finish_tile(block, sums, width, row, column);
}

void multiply_task(const Block& block, std::int64_t task) {
  const std::int64_t across = ceil_div(block.n, kTaskColumns);
  const std::int64_t row0 = task / across * kTaskRows, row1 = std::min(block.m, row0 + kTaskRows);
  const std::int64_t column0 = task % across * kTaskColumns, column1 = std::min(block.n, column0 + kTaskColumns);
  const std::int64_t width = 2 * static_cast<std::int64_t>(hn::Lanes(hn::CappedTag<float, kColumns / 2>()));
  for (std::int64_t column = column0; column < column1; column += width) {
    for (std::int64_t row = row0; row < row1; row += kRows) multiply_tile(block, row, column);
  }
}

}  // namespace plimsoll::cpu::tiled::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace tiled {
HWY_EXPORT(multiply_task);
void multiply(const Block& block, std::int64_t task) { HWY_DYNAMIC_DISPATCH(multiply_task)(block, task); }
}  // namespace tiled

namespace {

using namespace tiled;

std::int64_t a_panel_bytes(const GemmShape& shape) {
  return align_up(Bytes{ceil_div(shape.m, kRows) * kRows * std::min(shape.k, kDepth) * 4}, kAlignment).n;
}

void run_block(const Block& block) {
  const std::int64_t a_panels = ceil_div(block.m, kRows), b_panels = ceil_div(block.n, kColumns);
  parallel_for(ceil_div(a_panels, 16) + b_panels, [&](std::int64_t task) {
    if (task < b_panels) return pack_b_panel(block, task);
    const std::int64_t begin = (task - b_panels) * 16;
    for (std::int64_t panel = begin; panel < std::min(a_panels, begin + 16); ++panel) pack_a_panel(block, panel);
  });
  parallel_for(ceil_div(block.m, kTaskRows) * ceil_div(block.n, kTaskColumns), [&](std::int64_t task) { multiply(block, task); });
}

}  // namespace

Bytes tiled_gemm_scratch(const GemmShape& shape) {
  return Bytes{a_panel_bytes(shape) + ceil_div(shape.n, kColumns) * kColumns * std::min(shape.k, kDepth) * 4};
}

void run_tiled_gemm(const GemmShape& shape, const float* a, const float* b, const float* bias, float* c, std::byte* scratch) {
  for (std::int64_t e = 0; e < shape.batch; ++e) {
    for (std::int64_t k0 = 0; k0 < shape.k; k0 += kDepth) {
      run_block({.a = a + e * shape.m * shape.k,
                 .b = b + e * shape.k * shape.n,
                 .a_row = shape.transpose_a ? 1 : shape.k,
                 .a_step = shape.transpose_a ? shape.m : 1,
                 .b_step = shape.transpose_b ? 1 : shape.n,
                 .b_column = shape.transpose_b ? shape.k : 1,
                 .m = shape.m,
                 .n = shape.n,
                 .k0 = k0,
                 .depth = std::min(kDepth, shape.k - k0),
                 .bias = shape.bias && k0 == 0 ? bias : nullptr,
                 .c = c + e * shape.m * shape.n,
                 .add = shape.accumulate || k0 > 0,
                 .a_panels = reinterpret_cast<float*>(scratch),
                 .b_panels = reinterpret_cast<float*>(scratch + a_panel_bytes(shape))});
    }
  }
}

}  // namespace plimsoll::cpu
#endif
