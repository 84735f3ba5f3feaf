// The loops of batch norm over the rows of a task: their vectors, and sums over rows in fp64. Included once for each Highway
// target.
#if defined(PLIMSOLL_OPS_BATCH_NORM_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_BATCH_NORM_ROWS_INL_H_
#undef PLIMSOLL_OPS_BATCH_NORM_ROWS_INL_H_
#else
#define PLIMSOLL_OPS_BATCH_NORM_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/batch_norm/tiles.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {
namespace {

using batch_norm::Part;
using F64 = hn::ScalableTag<double>;
using HalfF32 = hn::Half<F32>;
inline constexpr std::int64_t kHalf = kLanes / 2;
inline constexpr std::int64_t kPeriod = 512;  // most elements of a row of the loops

// Elements of fp32, or of T.
template <class T>
HWY_INLINE Floats wide_at(const ConstElements& e, std::int64_t i, auto vector) {
  if constexpr (!std::is_same_v<T, float>) {
    if (e.type != DType::f32) return load_at(e.as<T>() + i, vector);
  }
  return load_at(e.as<float>() + i, vector);
}
template <class T>
HWY_INLINE void put_at(Floats v, const Elements& e, std::int64_t i, auto vector) {
  if constexpr (!std::is_same_v<T, float>) {
    if (e.type != DType::f32) return store_at(v, e.as<T>() + i, vector);
  }
  store_at(v, e.as<float>() + i, vector);
}

// Rows of a block of channels as the loops see them: rows of `width` elements, `stride` apart, then `tail` elements more. Short
// rows are joined to long ones of whole vectors: column i has channel i % channels.
struct Walk {
  std::int64_t first, stride, width, rows, tail;
};

// The number of rows that are joined.
HWY_INLINE std::int64_t joined(std::int64_t channels) {
  if (channels > batch_norm::kColumns) return 1;
  std::int64_t rows = kLanes / std::gcd<std::int64_t>(kLanes, channels);
  while (rows * channels < 4 * kLanes) rows *= 2;
  return rows * channels <= kPeriod ? rows : 1;
}

struct Block {
  std::int64_t begin, columns, joined;

  Block(const BatchNormShape& shape, std::int64_t block)
      : begin(block * batch_norm::kColumns),
        columns(std::min(shape.channels - begin, batch_norm::kColumns)),
        joined(HWY_NAMESPACE::joined(shape.channels)) {}

  // Copies values of the block's channels to all columns.
  void spread(const float* from, float* to) const {
    const auto bytes = static_cast<std::size_t>(columns) * 4;
    for (std::int64_t i = 0; i < joined; ++i) std::memcpy(to + i * columns, from, bytes);
    std::fill(to + joined * columns, to + round_up(joined * columns, kLanes), 0.0f);
  }
  // to[c] = the sum over the columns of channel c.
  void fold(const double* from, double* to) const {
    for (std::int64_t c = 0; c < columns; ++c) {
      double sum = from[c];
      for (std::int64_t i = 1; i < joined; ++i) sum += from[i * columns + c];
      to[c] = sum;
    }
  }
};

// Calls present(Walk) for runs of rows with samples, and absent(first row, rows) for the others, in the order of rows.
template <class Present, class Absent>
HWY_INLINE void for_rows_of(const BatchNormTerms& terms, const batch_norm::Cut& cut, const Part& part, const Block& block,
                            Present present, Absent absent) {
  const std::int64_t samples = terms.shape.samples, values = terms.shape.values, channels = terms.shape.channels;
  const std::int64_t begin = part.piece * cut.piece, end = std::min(cut.rows, begin + cut.piece);
  const auto is_present = [&](std::int64_t row) { return batch_norm::present(terms, part.group * samples + row / values); };
  for (std::int64_t row = begin; row < end;) {
    const bool is = is_present(row);
    std::int64_t next = row;
    while (next < end && is_present(next) == is) next = std::min(end, (next / values + 1) * values);
    const std::int64_t first = part.group * cut.rows + row, rows = next - row, width = block.joined * block.columns;
    if (!is) {
      absent(first, rows);
    } else if (block.joined == 1) {
      present(Walk{first * channels + block.begin, channels, width, rows, 0});
    } else {
      present(Walk{first * channels, width, width, rows * channels / width, rows * channels % width});
    }
    row = next;
  }
}

HWY_INLINE void put_zeros(const BatchNormShape& shape, const Block& block, std::int64_t first, std::int64_t rows,
                          const Elements& out) {
  const std::int64_t size = size_of(out.type);
  for (std::int64_t row = first; row < first + rows; ++row) {
    std::memset(out.from(row * shape.channels + block.begin).data, 0, static_cast<std::size_t>(block.columns * size));
  }
}

// Calls each(element, column, vector) for all vectors.
template <class Each>
HWY_INLINE void for_all(const Walk& walk, Each each) {
  for (std::int64_t row = 0; row < walk.rows; ++row) {
    const std::int64_t at = walk.first + row * walk.stride;
    for_vectors(walk.width, [&](std::int64_t i, auto vector) HWY_ATTR { each(at + i, i, vector); });
  }
  const std::int64_t at = walk.first + walk.rows * walk.stride;
  for_vectors(walk.tail, [&](std::int64_t i, auto vector) HWY_ATTR { each(at + i, i, vector); });
}

struct Pair {
  Floats u, v;
};

// The sums of u and of u v over rows, in fp64, by column. The pairs past a row's end have a u of 0.
struct Sums {
  alignas(64) double u[kPeriod] = {}, uv[kPeriod] = {};

  // Adds the pairs make(0) to make(kRows - 1) of the columns from i on.
  template <int kRows, class Make>
  HWY_INLINE void add(std::int64_t i, Make make) {
    const F64 d;
    auto u_low = hn::Load(d, u + i), u_high = hn::Load(d, u + i + kHalf);
    auto uv_low = hn::Load(d, uv + i), uv_high = hn::Load(d, uv + i + kHalf);
    HWY_UNROLL(4)
    for (int row = 0; row < kRows; ++row) {
      const Pair pair = make(row);
      const auto low = hn::PromoteTo(d, hn::LowerHalf(HalfF32(), pair.u));
      const auto high = hn::PromoteTo(d, hn::UpperHalf(HalfF32(), pair.u));
      u_low = hn::Add(u_low, low);
      u_high = hn::Add(u_high, high);
      uv_low = hn::MulAdd(low, hn::PromoteTo(d, hn::LowerHalf(HalfF32(), pair.v)), uv_low);
      uv_high = hn::MulAdd(high, hn::PromoteTo(d, hn::UpperHalf(HalfF32(), pair.v)), uv_high);
    }
    hn::Store(u_low, d, u + i);
    hn::Store(u_high, d, u + i + kHalf);
    hn::Store(uv_low, d, uv + i);
    hn::Store(uv_high, d, uv + i + kHalf);
  }

  // Adds make(element, column, vector) of all vectors, kRows rows at a time.
  template <int kRows, class Make>
  HWY_INLINE void add_all(const Walk& walk, Make make) {
    std::int64_t row = 0;
    for (; row + kRows <= walk.rows; row += kRows) {
      const std::int64_t at = walk.first + row * walk.stride;
      for_vectors(walk.width, [&](std::int64_t i, auto vector) HWY_ATTR {
        add<kRows>(i, [&](int r) HWY_ATTR { return make(at + r * walk.stride + i, i, vector); });
      });
    }
    for_all({walk.first + row * walk.stride, walk.stride, walk.width, walk.rows - row, walk.tail},
            [&](std::int64_t at, std::int64_t i, auto vector)
                HWY_ATTR { add<1>(i, [&](int) HWY_ATTR { return make(at, i, vector); }); });
  }

  void write(const Block& block, std::int64_t channels, double* partials) const {
    block.fold(u, partials + block.begin);
    block.fold(uv, partials + channels + block.begin);
  }
};

}  // namespace
}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_BATCH_NORM_ROWS_INL_H_
