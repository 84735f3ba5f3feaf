#include "ops/shape/kernels.h"

#include <cstring>

#include "ops/elementwise/tiles.h"

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

namespace {

// One permuted copy: for each outer pair of indices a plane of x becomes a plane of y.
struct Planes {
  std::array<std::int64_t, 2> extents, x_strides, y_strides;  // of the two outer axes
};

void transpose_planes(const Planes& planes, std::int64_t rows, std::int64_t columns, const float* x, std::int64_t x_stride,
                      float* y, std::int64_t y_stride) {
  const auto block = HWY_DYNAMIC_DISPATCH(transpose_block);
  const std::int64_t row_blocks = tile_count(rows, kBlock), column_blocks = tile_count(columns, kBlock);
  const std::int64_t per_task = std::max<std::int64_t>(1, kElementTile / (std::min(rows, kBlock) * std::min(columns, kBlock)));
  for_tiles(
      planes.extents[0] * planes.extents[1] * column_blocks * row_blocks,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          const std::int64_t r = i % row_blocks * kBlock, c = i / row_blocks % column_blocks * kBlock;
          const std::int64_t plane = i / (row_blocks * column_blocks);
          const std::int64_t p = plane / planes.extents[1], q = plane % planes.extents[1];
          const float* from = x + p * planes.x_strides[0] + q * planes.x_strides[1] + r * x_stride + c;
          float* to = y + p * planes.y_strides[0] + q * planes.y_strides[1] + c * y_stride + r;
          block(std::min(kBlock, rows - r), std::min(kBlock, columns - c), from, x_stride, to, y_stride);
        }
      },
      per_task);
}

std::array<std::int64_t, 4> dense_strides(const std::array<std::int64_t, 4>& extents) {
  return {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
}

// The last axis stays: whole rows move.
void permute_rows(const std::array<std::int64_t, 4>& y_extents, const std::array<std::int64_t, 4>& x_strides, const float* x,
                  float* y) {
  const std::int64_t n = y_extents[3];
  for_row_tiles(y_extents[0] * y_extents[1] * y_extents[2], n, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
    const std::int64_t i = row / (y_extents[1] * y_extents[2]), j = row / y_extents[2] % y_extents[1], k = row % y_extents[2];
    const float* from = x + i * x_strides[0] + j * x_strides[1] + k * x_strides[2];
    std::memcpy(y + row * n + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

}  // namespace

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
  const Planes planes{{1, batch}, {0, rows * columns}, {0, rows * columns}};
  transpose_planes(planes, rows, columns, x, columns, y, rows);
}

void permute(const std::array<std::int64_t, 4>& extents, const std::array<int, 4>& axes, const float* x, float* y) {
  const std::array<std::int64_t, 4> strides = dense_strides(extents);
  std::array<std::int64_t, 4> y_extents, x_strides;
  for (std::size_t i = 0; i < 4; ++i) {
    y_extents[i] = extents[static_cast<std::size_t>(axes[i])];
    x_strides[i] = strides[static_cast<std::size_t>(axes[i])];
  }
  if (axes[3] == 3) return permute_rows(y_extents, x_strides, x, y);
  const std::array<std::int64_t, 4> y_strides = dense_strides(y_extents);
  Planes planes{};
  std::size_t columns_axis = 0;  // where x's last axis is in y
  for (std::size_t i = 0, outer = 0; i < 3; ++i) {
    if (axes[i] == 3) {
      columns_axis = i;
    } else {
      planes.extents[outer] = y_extents[i];
      planes.x_strides[outer] = x_strides[i];
      planes.y_strides[outer++] = y_strides[i];
    }
  }
  transpose_planes(planes, y_extents[3], extents[3], x, x_strides[3], y, y_strides[columns_axis]);
}

}  // namespace plimsoll::cpu
#endif
