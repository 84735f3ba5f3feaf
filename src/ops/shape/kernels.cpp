#include "ops/shape/kernels.h"

#include <cstring>

#include "device/cpu/tiles.h"

#ifndef PLIMSOLL_OPS_SHAPE_KERNELS_ONCE_
#define PLIMSOLL_OPS_SHAPE_KERNELS_ONCE_
namespace plimsoll::cpu {
constexpr std::int64_t kBlock = 64;  // a block of fp32 takes a third of the first-level cache
}
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/shape/kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// y[c * y_stride + r] = x[r * x_stride + c] for r in [0, rows), c in [0, columns), both at most kBlock. Strides are often powers
// of two, so the lines of a block fall into few sets of a cache; through a dense buffer each line of x and of y is touched only
// once.
void transpose_block(std::int64_t rows, std::int64_t columns, const float* x, std::int64_t x_stride, float* y,
                     std::int64_t y_stride) {
  alignas(64) float block[kBlock * kBlock];
  std::int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  for (; r + 4 <= rows; r += 4) {
    std::int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      const float* in = x + r * x_stride + c;
      const auto row0 = hn::LoadU(d, in), row1 = hn::LoadU(d, in + x_stride);
      const auto row2 = hn::LoadU(d, in + 2 * x_stride), row3 = hn::LoadU(d, in + 3 * x_stride);
      const auto lower01 = hn::BitCast(pairs, hn::InterleaveLower(d, row0, row1));
      const auto upper01 = hn::BitCast(pairs, hn::InterleaveUpper(d, row0, row1));
      const auto lower23 = hn::BitCast(pairs, hn::InterleaveLower(d, row2, row3));
      const auto upper23 = hn::BitCast(pairs, hn::InterleaveUpper(d, row2, row3));
      float* out = block + c * kBlock + r;
      hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, lower01, lower23)), d, out);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, lower01, lower23)), d, out + kBlock);
      hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, upper01, upper23)), d, out + 2 * kBlock);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, upper01, upper23)), d, out + 3 * kBlock);
    }
    for (; c < columns; ++c) {
      for (std::int64_t k = r; k < r + 4; ++k) block[c * kBlock + k] = x[k * x_stride + c];
    }
  }
#endif
  for (; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) block[c * kBlock + r] = x[r * x_stride + c];
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    std::memcpy(y + c * y_stride, block + c * kBlock, static_cast<std::size_t>(rows) * sizeof(float));
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(transpose_block);

void copy(Bytes size, const void* from, void* to) {
  constexpr std::int64_t kTile = kElementTile * 4;
  for_tiles(
      size.n,
      [=](std::int64_t begin, std::int64_t end) {
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                    static_cast<std::size_t>(end - begin));
      },
      kTile);
}

void transpose(std::int64_t batch, std::int64_t rows, std::int64_t columns, const float* x, float* y) {
  const auto block = HWY_DYNAMIC_DISPATCH(transpose_block);
  const std::int64_t row_blocks = ceil_div(rows, kBlock), column_blocks = ceil_div(columns, kBlock);
  const std::int64_t per_task = std::max<std::int64_t>(1, kElementTile / (std::min(rows, kBlock) * std::min(columns, kBlock)));
  for_tiles(
      batch * column_blocks * row_blocks,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          const std::int64_t r = i % row_blocks * kBlock, c = i / row_blocks % column_blocks * kBlock;
          const std::int64_t matrix = i / (row_blocks * column_blocks) * rows * columns;
          block(std::min(kBlock, rows - r), std::min(kBlock, columns - c), x + matrix + r * columns + c, columns,
                y + matrix + c * rows + r, rows);
        }
      },
      per_task);
}

}  // namespace plimsoll::cpu
#endif
