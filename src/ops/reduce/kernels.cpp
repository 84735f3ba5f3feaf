#include "ops/reduce/kernels.h"

#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/reduce/sum_range-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void add_rows(std::int64_t begin, std::int64_t end, const T* first, std::int64_t stride, int count, float* sum) {
  if (count == 4) {
    const auto add4 = [](Floats s, Floats a, Floats b, Floats c, Floats d)
                          HWY_ATTR { return hn::Add(hn::Add(hn::Add(hn::Add(s, a), b), c), d); };
    map_range(begin, end, add4, sum, sum, first, first + stride, first + 2 * stride, first + 3 * stride);
    return;
  }
  const auto add1 = [](Floats s, Floats a) HWY_ATTR { return hn::Add(s, a); };
  for (int r = 0; r < count; ++r) map_range(begin, end, add1, sum, sum, first + r * stride);
}

// The sum of a tile's rows, one after another, into its row of the scratch.
template <class T>
HWY_INLINE void sum_row_tile(std::int64_t rows, std::int64_t n, const T* x, float* sum) {
  map_range(
      0, n, [](Floats v) HWY_ATTR { return v; }, sum, x);
  for (std::int64_t row = 1; row < rows; row += 4) {
    add_rows(0, n, x + row * n, n, static_cast<int>(HWY_MIN(std::int64_t{4}, rows - row)), sum);
  }
}

template <class T>
HWY_INLINE void sum_rows_of(std::int64_t rows, std::int64_t n, const T* x, bool accumulate, float* out, float* sums) {
  const std::int64_t tiles = ceil_div(rows, kRowTile);
  const std::int64_t tiles_per_task = HWY_MAX(std::int64_t{1}, kElementTile / (kRowTile * n));
  for_tiles(
      tiles,
      [=](std::int64_t first, std::int64_t last) HWY_ATTR {
        for (std::int64_t t = first; t < last; ++t) {
          sum_row_tile(HWY_MIN(kRowTile, rows - t * kRowTile), n, x + t * kRowTile * n, sums + t * n);
        }
      },
      tiles_per_task);
  const std::int64_t strip = HWY_MAX(std::int64_t{64}, kElementTile / tiles);
  for_tiles(
      n,
      [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
        for (std::int64_t t = 1; t < tiles; t += 4) {
          add_rows(begin, end, sums + t * n, n, static_cast<int>(HWY_MIN(std::int64_t{4}, tiles - t)), sums);
        }
        if (accumulate) {
          add_rows(begin, end, sums, n, 1, out);
        } else {
          std::memcpy(out + begin, sums + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
        }
      },
      strip);
}

void sum_rows(std::int64_t rows, std::int64_t n, ConstElements x, bool accumulate, float* out, float* sums) {
  with_type(x.type, [&]<class T>(T) HWY_ATTR { sum_rows_of(rows, n, x.as<T>(), accumulate, out, sums); });
}

void tile_sums_of_squares(std::int64_t n, ConstElements x, double* tiles) {
  with_f32_or_bf16(x.type, [&]<class T>(T) HWY_ATTR {
    const T* numbers = x.as<T>();
    const auto body = [=](std::int64_t begin, std::int64_t end)
                          HWY_ATTR { tiles[begin / kSumTile] = sum_range(begin, end, numbers, Squared()); };
    for_tiles(n, body, kSumTile);
  });
}

void reduce_last_axis(std::int64_t rows, std::int64_t n, bool mean, const float* x, float* out) {
  const double divisor = mean ? static_cast<double>(n) : 1.0;
  for_tiles(
      rows,
      [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
        for (std::int64_t row = begin; row < end; ++row) {
          out[row] = static_cast<float>(sum_range(row * n, (row + 1) * n, x, Plain()) / divisor);
        }
      },
      HWY_MAX(std::int64_t{1}, kElementTile / HWY_MAX(std::int64_t{1}, n)));
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(sum_rows);
HWY_EXPORT(tile_sums_of_squares);
HWY_EXPORT(reduce_last_axis);

Bytes sum_rows_scratch(std::int64_t rows, std::int64_t n) {
  return Bytes{ceil_div(rows, kRowTile) * n * static_cast<std::int64_t>(sizeof(float))};
}

void sum_rows(std::int64_t rows, std::int64_t n, ConstElements x, bool accumulate, float* out, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(sum_rows)(rows, n, x, accumulate, out, reinterpret_cast<float*>(scratch));
}

Bytes sum_scratch(std::int64_t n) { return Bytes{sum_tiles(n) * static_cast<std::int64_t>(sizeof(double))}; }

void sums_of_squares(std::int64_t n, ConstElements x, double* tiles) { HWY_DYNAMIC_DISPATCH(tile_sums_of_squares)(n, x, tiles); }

double sum_of_squares(std::int64_t n, ConstElements x, double before, std::byte* scratch) {
  double* tiles = reinterpret_cast<double*>(scratch);
  HWY_DYNAMIC_DISPATCH(tile_sums_of_squares)(n, x, tiles);
  return std::accumulate(tiles, tiles + sum_tiles(n), before);
}

void reduce_last_axis(std::int64_t rows, std::int64_t n, bool mean, const float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(reduce_last_axis)(rows, n, mean, x, out);
}

Bytes count_small_scratch(std::int64_t n) {
  return Bytes{ceil_div(n, kElementTile) * static_cast<std::int64_t>(sizeof(SmallNumbers))};
}

SmallNumbers count_small(std::int64_t n, const F16* x, std::byte* scratch) {
  auto* tiles = reinterpret_cast<SmallNumbers*>(scratch);
  for_tiles(n, [=](std::int64_t begin, std::int64_t end) {
    std::int32_t zeros = 0, normal = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const unsigned size = static_cast<unsigned>(x[i]) & 0x7fffU;
      zeros += static_cast<std::int32_t>(size == 0);
      normal += static_cast<std::int32_t>(size >= 0x0400U);
    }
    tiles[begin / kElementTile] = {zeros, end - begin - zeros - normal};
  });
  SmallNumbers all;
  for (std::int64_t i = 0; i < ceil_div(n, kElementTile); ++i) {
    all.zeros += tiles[i].zeros;
    all.subnormals += tiles[i].subnormals;
  }
  return all;
}

void sum_in_order(std::int64_t n, const float* x, double* total) {
  double running = *total;
  for (std::int64_t i = 0; i < n; ++i) running += double{x[i]};
  *total = running;
}

}  // namespace plimsoll::cpu
#endif
