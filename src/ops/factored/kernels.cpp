#include "ops/factored/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/factored/kernels.cpp"
#include "hwy/foreach_target.h"

#include "base/ceil_div.h"
#include "device/cpu/cast.h"
#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/attributes.h"
#include "ops/update/taken-inl.h"

#ifndef PLIMSOLL_OPS_FACTORED_KERNELS_ONCE
#define PLIMSOLL_OPS_FACTORED_KERNELS_ONCE
namespace plimsoll::cpu::factored {

inline constexpr std::int64_t kRowTile = 64;    // rows of one partial sum of the columns
inline constexpr std::int64_t kWidened = 1024;  // elements of a narrow parameter at a time; whole groups of noise
inline constexpr float kLeast = 0x1p-23f;       // least mean of the rows; its square is the least variance

// Calls body(row, column, offset, count) for the pieces of rows in [begin, end), cut at the ends of tiles of the parameter's
// elements. Offsets count from `from`.
template <class Body>
void for_segments(const FactoredShape& shape, std::int64_t begin, std::int64_t end, std::int64_t from, Body&& body) {
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t row = at / shape.columns, column = at - row * shape.columns;
    const std::int64_t tile_end = (at / ops::kNormTile + 1) * ops::kNormTile;
    const std::int64_t stop = std::min({end, (row + 1) * shape.columns, tile_end});
    body(row, column, at - from, stop - at);
    at = stop;
  }
}

struct RowSegment {
  ConstElements g;
  float* column_sums;
  std::int64_t count;
  float scale, clip_value;
};

struct UpdateSegment {
  ConstElements g;
  const float* columns;
  std::int64_t count;
  float scale, clip_value, row;  // row: factor of the variances of columns
};

struct ApplySegment {
  UpdateSegment update;
  float *p, *average;
  float keep, size, blend;
  bool first;
};

struct ElementSegment {
  ConstElements g;
  float* variance;
  std::int64_t count;
  float scale, clip_value, blend;
};

}  // namespace plimsoll::cpu::factored
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

HWY_INLINE float sum_of_lanes(Floats v) { return hn::GetLane(hn::SumOfLanes(F32(), v)); }

// Adds squares to the sums of the columns; returns their sum.
float add_squares(const factored::RowSegment& s) {
  const Taken taken(s.scale, s.clip_value);
  return with_f32_or_bf16(s.g.type, [&]<class G>(G) HWY_ATTR {
    Floats sum = hn::Zero(F32());
    for_vectors(s.count, [&](std::int64_t i, auto vector) HWY_ATTR {
      const Floats x = taken(load_at(s.g.as<G>() + i, vector)), square = hn::Mul(x, x);
      sum = hn::Add(sum, square);
      store_at(hn::Add(load_at(s.column_sums + i, vector), square), s.column_sums + i, vector);
    });
    return sum_of_lanes(sum);
  });
}

void move_variance(const factored::ElementSegment& s) {
  const Taken taken(s.scale, s.clip_value);
  const auto move = [=, &s](Floats g, Floats variance) HWY_ATTR {
    const Floats x = taken(g);
    return hn::MulAdd(set(s.blend), hn::Sub(hn::Mul(x, x), variance), variance);
  };
  with_f32_or_bf16(s.g.type, [&]<class G>(G) HWY_ATTR {
    map_range(0, s.count, move, s.variance, s.g.as<G>(), const_cast<const float*>(s.variance));
  });
}

float sum_of_squares(ConstElements x, std::int64_t count) {
  return with_f32_or_bf16(x.type, [&]<class P>(P) HWY_ATTR {
    Floats sum = hn::Zero(F32());
    for_vectors(count, [&](std::int64_t i, auto vector) HWY_ATTR {
      const Floats v = load_at(x.as<P>() + i, vector);
      sum = hn::MulAdd(v, v, sum);
    });
    return sum_of_lanes(sum);
  });
}

HWY_INLINE Floats update_of(const factored::UpdateSegment& s, Floats g, Floats columns) {
  const Floats variance = hn::Max(hn::Mul(set(s.row), columns), set(factored::kLeast * factored::kLeast));
  return hn::Div(Taken(s.scale, s.clip_value)(g), hn::Sqrt(variance));
}

float sum_of_updates(const factored::UpdateSegment& s) {
  return with_f32_or_bf16(s.g.type, [&]<class G>(G) HWY_ATTR {
    Floats sum = hn::Zero(F32());
    for_vectors(s.count, [&](std::int64_t i, auto vector) HWY_ATTR {
      const Floats u = update_of(s, load_at(s.g.as<G>() + i, vector), load_at(s.columns + i, vector));
      sum = hn::MulAdd(u, u, sum);
    });
    return sum_of_lanes(sum);
  });
}

void apply_update(const factored::ApplySegment& s) {
  const auto step = [&s](Floats g, Floats columns, Floats p)
                        HWY_ATTR { return hn::NegMulAdd(set(s.size), update_of(s.update, g, columns), hn::Mul(p, set(s.keep))); };
  with_f32_or_bf16(s.update.g.type, [&]<class G>(G) HWY_ATTR {
    map_range(0, s.update.count, step, s.p, s.update.g.as<G>(), s.update.columns, const_cast<const float*>(s.p));
  });
  if (s.average == nullptr) return;
  const auto follow = [&s](Floats average, Floats p)
                          HWY_ATTR { return s.first ? p : hn::MulAdd(set(s.blend), hn::Sub(p, average), average); };
  map_range(0, s.update.count, follow, s.average, const_cast<const float*>(s.average), const_cast<const float*>(s.p));
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(add_squares);
HWY_EXPORT(move_variance);
HWY_EXPORT(sum_of_squares);
HWY_EXPORT(sum_of_updates);
HWY_EXPORT(apply_update);

namespace {

using factored::for_segments;
using factored::kRowTile;
using factored::kWidened;

// Sums of squares of the rows in fp64, then those of the columns over each tile of rows in fp32.
struct Sums {
  double* rows;
  float* columns;

  Sums(const FactoredShape& shape, std::byte* scratch)
      : rows(reinterpret_cast<double*>(scratch)), columns(reinterpret_cast<float*>(scratch + row_bytes(shape).n)) {}
  static Bytes row_bytes(const FactoredShape& shape) {
    return align_up(Bytes{shape.rows * static_cast<std::int64_t>(sizeof(double))}, kCacheLine);
  }
  static std::int64_t tiles(const FactoredShape& shape) { return ceil_div(shape.rows, kRowTile); }
};

void close_variance(const FactoredShape& shape, const Variance& variance, const Sums& sums, double blend) {
  const auto moved = [blend](float before, double mean) { return static_cast<float>(before + blend * (mean - before)); };
  for_tiles(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      variance.rows[i] = moved(variance.rows[i], sums.rows[i] / static_cast<double>(shape.columns));
    }
  });
  const std::int64_t tiles = Sums::tiles(shape);
  for_tiles(
      shape.columns,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t j = begin; j < end; ++j) {
          double sum = 0;
          for (std::int64_t tile = 0; tile < tiles; ++tile) sum += sums.columns[tile * shape.columns + j];
          variance.columns[j] = moved(variance.columns[j], sum / static_cast<double>(shape.rows));
        }
      },
      std::max<std::int64_t>(64, kElementTile / tiles));
}

// The factor of the variances of the columns, in a row.
class RowFactor {
 public:
  RowFactor(const FactoredShape& shape, const Variance& variance) : rows_(shape.factored ? variance.rows : nullptr) {
    if (rows_ == nullptr) return;
    double sum = 0;
    for (std::int64_t i = 0; i < shape.rows; ++i) sum += rows_[i];
    inverse_ = 1 / std::max(sum / static_cast<double>(shape.rows), double{factored::kLeast});
  }
  float operator()(std::int64_t row) const { return rows_ == nullptr ? 1 : static_cast<float>(rows_[row] * inverse_); }

 private:
  const float* rows_;
  double inverse_ = 1;
};

// The variances for a segment: of the columns, or of the range's elements.
const float* columns_of(const FactoredShape& shape, const Variance& variance, std::int64_t column, std::int64_t offset) {
  return variance.columns + (shape.factored ? column : offset);
}

}  // namespace

Bytes update_variance_scratch(const FactoredShape& shape) {
  if (!shape.factored) return {};
  return Sums::row_bytes(shape) + Bytes{Sums::tiles(shape) * shape.columns * static_cast<std::int64_t>(sizeof(float))};
}

void update_variance(const FactoredShape& shape, const FactoredRange& range, const Variance& variance, const FactoredGradient& g,
                     double blend, std::byte* scratch) {
  if (!shape.factored) {
    const auto move = HWY_DYNAMIC_DISPATCH(move_variance);
    return for_tiles(range.count, [&](std::int64_t begin, std::int64_t end) {
      move({g.numbers.from(begin), variance.columns + begin, end - begin, g.scale, g.clip_value, static_cast<float>(blend)});
    });
  }
  const auto add_squares = HWY_DYNAMIC_DISPATCH(add_squares);
  const Sums sums(shape, scratch);
  const std::int64_t end = range.begin + range.count, tile_elements = kRowTile * shape.columns;
  const std::int64_t first = range.begin / tile_elements, last = ceil_div(end, tile_elements);
  parallel_for(last - first, [&](std::int64_t task) {
    const std::int64_t tile = first + task, from = std::max(range.begin, tile * tile_elements);
    float* columns = sums.columns + tile * shape.columns;
    if (from == tile * tile_elements) {
      const std::int64_t rows = std::min(kRowTile, shape.rows - tile * kRowTile);
      std::fill_n(columns, shape.columns, 0.0F);
      std::fill_n(sums.rows + tile * kRowTile, rows, 0.0);
    }
    for_segments(shape, from, std::min(end, (tile + 1) * tile_elements), range.begin,
                 [&](std::int64_t row, std::int64_t column, std::int64_t offset, std::int64_t count) {
                   sums.rows[row] += add_squares({g.numbers.from(offset), columns + column, count, g.scale, g.clip_value});
                 });
  });
  if (end == shape.elements()) close_variance(shape, variance, sums, blend);
}

Bytes update_size_scratch(const FactoredShape& shape) {
  return Bytes{ceil_div(shape.elements(), ops::kNormTile) * static_cast<std::int64_t>(sizeof(Sizes))};
}

Sizes update_size(const FactoredShape& shape, const FactoredRange& range, Elements p, const Variance& variance,
                  const FactoredGradient& g, Sizes before, std::byte* scratch) {
  Sizes* tiles = reinterpret_cast<Sizes*>(scratch);
  const auto sum_of_squares = HWY_DYNAMIC_DISPATCH(sum_of_squares);
  const auto sum_of_updates = HWY_DYNAMIC_DISPATCH(sum_of_updates);
  const RowFactor factor(shape, variance);
  const std::int64_t end = range.begin + range.count, count = ceil_div(range.count, ops::kNormTile);
  parallel_for(count, [&](std::int64_t tile) {
    const std::int64_t from = range.begin + tile * ops::kNormTile;
    tiles[tile] = {};
    for_segments(shape, from, std::min(end, from + ops::kNormTile), range.begin,
                 [&](std::int64_t row, std::int64_t column, std::int64_t offset, std::int64_t part) {
                   tiles[tile].parameter += sum_of_squares(p.from(offset), part);
                   tiles[tile].update += sum_of_updates({g.numbers.from(offset), columns_of(shape, variance, column, offset),
                                                         part, g.scale, g.clip_value, factor(row)});
                 });
  });
  for (std::int64_t tile = 0; tile < count; ++tile) {
    before.parameter += tiles[tile].parameter;
    before.update += tiles[tile].update;
  }
  return before;
}

Change adafactor(const FactoredShape& shape, const FactoredRange& range, Elements p, float* average, const Variance& variance,
                 const FactoredGradient& g, const AdafactorStep& step, const StochasticRounding& rounding) {
  constexpr double kLeastSize = 1e-3;
  const double n = static_cast<double>(shape.elements());
  const double rate = std::min(step.lr, 1 / std::sqrt(static_cast<double>(step.update)));
  const double size = std::max(kLeastSize, std::sqrt(step.sizes.parameter / n)) * rate;
  const double held = std::max(1.0, std::sqrt(step.sizes.update / n));
  const RowFactor factor(shape, variance);
  const std::int64_t end = range.begin + range.count;
  const auto apply_update = HWY_DYNAMIC_DISPATCH(apply_update);
  // Updates elements [from, stop); `parameter` points to the first.
  const auto update = [&](std::int64_t from, std::int64_t stop, float* parameter) {
    for_segments(
        shape, from, stop, range.begin, [&](std::int64_t row, std::int64_t column, std::int64_t offset, std::int64_t count) {
          apply_update(
              {{g.numbers.from(offset), columns_of(shape, variance, column, offset), count, g.scale, g.clip_value, factor(row)},
               parameter + (offset - (from - range.begin)),
               average == nullptr ? nullptr : average + offset,
               static_cast<float>(1 - step.lr * step.weight_decay),
               static_cast<float>(size / held),
               static_cast<float>(step.average_blend),
               step.first});
        });
  };
  parallel_for(ceil_div(range.count, ops::kNormTile), [&](std::int64_t tile) {
    const std::int64_t from = range.begin + tile * ops::kNormTile, stop = std::min(end, from + ops::kNormTile);
    if (p.type == DType::f32) return update(from, stop, p.as<float>() + (from - range.begin));
    alignas(64) std::array<float, kWidened> wide;
    for (std::int64_t at = from; at < stop; at += kWidened) {
      const std::int64_t count = std::min(kWidened, stop - at);
      auto* narrow = p.as<std::uint16_t>() + (at - range.begin);
      cast(count, narrow, wide.data());
      update(at, at + count, wide.data());
      accumulate_rounded(count, wide.data(), /*add=*/false, narrow, {rounding.key, rounding.update, at});
    }
  });
  return {step.sizes.parameter, size / held * (size / held) * step.sizes.update};
}

}  // namespace plimsoll::cpu
#endif
