#include "ops/batch_norm/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "base/ceil_div.h"
#include "device/cpu/tiles.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/batch_norm/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/elementwise/activations-inl.h"

#ifndef PLIMSOLL_OPS_BATCH_NORM_KERNELS_ONCE_
#define PLIMSOLL_OPS_BATCH_NORM_KERNELS_ONCE_
namespace plimsoll::cpu::batch_norm {

using ops::NormActivation;

inline constexpr std::int64_t kColumns = 256;                   // channels of a block
inline constexpr std::int64_t kLeastRows = 128;                 // rows of the smallest piece
inline constexpr std::int64_t kMostPieces = 64;                 // of a group
inline constexpr std::int64_t kAtOnce = std::int64_t{1} << 20;  // elements of groups whose passes follow each other, for caches
inline constexpr std::int64_t kAtOnceSums = std::int64_t{1} << 15;  // most partial sums of several such groups
inline constexpr std::int64_t kCombined = 64;                       // channels of a task that adds up partial sums
inline constexpr std::int64_t kPeriod = 512;                        // most elements of a row of the walk

// The cut of a group, [rows, channels], into tasks: pieces of rows times blocks of channels. Fixed by the shape.
struct Cut {
  std::int64_t rows, columns, blocks, piece, pieces, at_once;

  explicit Cut(const BatchNormShape& s)
      : rows(s.samples * s.values), columns(std::min(s.channels, kColumns)), blocks(ceil_div(s.channels, kColumns)) {
    const std::int64_t least = std::max(kElementTile / columns, ceil_div(rows, kMostPieces));
    piece = round_up(least, kLeastRows);
    pieces = ceil_div(rows, piece);
    const std::int64_t cached = std::min(kAtOnce / (rows * s.channels), kAtOnceSums / (pieces * 2 * s.channels));
    at_once = std::clamp<std::int64_t>(cached, 1, s.groups);
  }
  std::int64_t tasks() const { return pieces * blocks; }
  Bytes partials(std::int64_t channels) const { return Bytes{at_once * pieces * 2 * channels * 8}; }
};

// A task: `slot` is the place of the group among those at once.
struct Part {
  std::int64_t group, slot, piece, block;
};

struct Forward {
  BatchNormTerms terms;
  Cut cut;
  DType narrow;  // the 16-bit type of operands, else fp32
  ConstElements x, residual;
  Elements y;
  Moments moments;
  double* partials;  // [slots, pieces, 2, channels]
};

struct Backward {
  BatchNormTerms terms;
  Cut cut;
  DType narrow;
  ConstElements dy, x, residual;
  Moments moments;
  bool fixed;
  BatchNormGradients made;
  double* partials;
  float* means;  // [slots, 2, channels]: the terms of dx that are the same for all rows
};

inline bool present(const BatchNormTerms& terms, std::int64_t sample) {
  return terms.sample_ids == nullptr || terms.sample_ids[2 * sample + 1] != ops::kAbsentRow;
}

inline std::int64_t values_of_group(const BatchNormTerms& terms, std::int64_t group) {
  const std::int64_t samples = terms.shape.samples;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < samples; ++i) count += present(terms, group * samples + i) ? 1 : 0;
  return count * terms.shape.values;
}

inline double* partials_of(double* partials, const Cut& cut, std::int64_t channels, std::int64_t slot, std::int64_t piece) {
  return partials + (slot * cut.pieces + piece) * 2 * channels;
}

inline DType narrow_of(DType a, DType b) { return a == DType::f32 ? b : a; }
inline DType type_of(const ConstElements& e) { return e.data == nullptr ? DType::f32 : e.type; }

}  // namespace plimsoll::cpu::batch_norm
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {
namespace {

using batch_norm::kPeriod;
using batch_norm::NormActivation;
using batch_norm::Part;
using F64 = hn::ScalableTag<double>;
using HalfF32 = hn::Half<F32>;
inline constexpr std::int64_t kHalf = kLanes / 2;

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

// The terms of a group for each column: the sum before the activation is (x - mean) scale + shift.
struct Columns {
  alignas(64) float mean[kPeriod], scale[kPeriod], shift[kPeriod];

  Columns(const BatchNormTerms& terms, const Moments& moments, std::int64_t group, const Block& block) {
    alignas(64) float by_channel[batch_norm::kColumns];
    const float* variance = moments.variance + group * moments.stride + block.begin;
    const float* gamma = terms.gamma + block.begin;
    for_vectors(block.columns, [&](std::int64_t i, auto vector) HWY_ATTR {
      const Floats deviation = hn::Sqrt(hn::Add(load_at(variance + i, vector), set(terms.epsilon)));
      hn::Store(hn::Div(load_at(gamma + i, vector), deviation), F32(), by_channel + i);
    });
    block.spread(by_channel, scale);
    block.spread(moments.mean + group * moments.stride + block.begin, mean);
    block.spread(terms.beta + block.begin, shift);
  }

  HWY_INLINE Floats shifted(Floats x, std::int64_t i) const { return hn::Sub(x, hn::Load(F32(), mean + i)); }
  HWY_INLINE Floats scale_at(std::int64_t i) const { return hn::Load(F32(), scale + i); }
  HWY_INLINE Floats sum(Floats shifted, std::int64_t i) const {
    return hn::MulAdd(shifted, scale_at(i), hn::Load(F32(), shift + i));
  }
};

// Not by Max, which would turn NaN into zero.
HWY_INLINE Floats relu(Floats v) { return hn::IfThenZeroElse(hn::Lt(v, set(0)), v); }

template <NormActivation kActivation>
HWY_INLINE Floats activated(Floats v) {
  if constexpr (kActivation == NormActivation::none) return v;
  if constexpr (kActivation == NormActivation::relu) return relu(v);
  if constexpr (kActivation == NormActivation::relu6) return hn::IfThenElse(hn::Gt(v, set(6)), set(6), relu(v));
  if constexpr (kActivation == NormActivation::silu) return silu(v).value;
}

// The gradient of the sum v before the activation.
template <NormActivation kActivation>
HWY_INLINE Floats before_activation(Floats dy, Floats v) {
  if constexpr (kActivation == NormActivation::none) return dy;
  if constexpr (kActivation == NormActivation::relu) return hn::IfThenElseZero(hn::Gt(v, set(0)), dy);
  if constexpr (kActivation == NormActivation::relu6) {
    return hn::IfThenElseZero(hn::And(hn::Gt(v, set(0)), hn::Lt(v, set(6))), dy);
  }
  if constexpr (kActivation == NormActivation::silu) return hn::Mul(dy, silu(v).derivative);
}

template <NormActivation kActivation>
using Constant = std::integral_constant<NormActivation, kActivation>;

// Calls f with the type of the operands of 16 bits, or fp32, and the activation, both as types.
template <class F>
HWY_INLINE void with_types(DType narrow, NormActivation activation, F f) {
  with_type(narrow, [&]<class T>(T type) HWY_ATTR {
    switch (activation) {
      case NormActivation::none: return f(type, Constant<NormActivation::none>());
      case NormActivation::relu: return f(type, Constant<NormActivation::relu>());
      case NormActivation::relu6: return f(type, Constant<NormActivation::relu6>());
      case NormActivation::silu: return f(type, Constant<NormActivation::silu>());
    }
  });
}

}  // namespace

void piece_statistics(const batch_norm::Forward& n, const Part& part) {
  const Block block(n.terms.shape, part.block);
  Sums sums;
  with_type(n.x.type, [&]<class T>(T) HWY_ATTR {
    for_rows_of(
        n.terms, n.cut, part, block,
        [&](const Walk& walk) HWY_ATTR {
          sums.add_all<4>(walk, [&](std::int64_t at, std::int64_t, auto vector) HWY_ATTR {
            const Floats x = wide_at<T>(n.x, at, vector);
            return Pair{x, x};
          });
        },
        [](std::int64_t, std::int64_t) {});
  });
  const std::int64_t channels = n.terms.shape.channels;
  sums.write(block, channels, batch_norm::partials_of(n.partials, n.cut, channels, part.slot, part.piece));
}

void normalise_piece(const batch_norm::Forward& n, const Part& part) {
  const Block block(n.terms.shape, part.block);
  const Columns columns(n.terms, n.moments, part.group, block);
  with_types(n.narrow, n.terms.activation, [&]<class T, class A>(T, A) HWY_ATTR {
    for_rows_of(
        n.terms, n.cut, part, block,
        [&](const Walk& walk) HWY_ATTR {
          for_all(walk, [&](std::int64_t at, std::int64_t i, auto vector) HWY_ATTR {
            Floats v = columns.sum(columns.shifted(wide_at<T>(n.x, at, vector), i), i);
            if (n.residual.data != nullptr) v = hn::Add(v, wide_at<T>(n.residual, at, vector));
            put_at<T>(activated<A::value>(v), n.y, at, vector);
          });
        },
        [&](std::int64_t first, std::int64_t rows) { put_zeros(n.terms.shape, block, first, rows, n.y); });
  });
}

namespace {

// The gradient of the sum before the activation at an element.
template <class T, NormActivation kActivation>
HWY_INLINE Floats gradient_at(const batch_norm::Backward& n, const Columns& columns, Floats shifted, std::int64_t at,
                              std::int64_t i, auto vector) {
  const Floats dy = wide_at<T>(n.dy, at, vector);
  if constexpr (kActivation == NormActivation::none) return dy;
  Floats v = columns.sum(shifted, i);
  if (n.residual.data != nullptr) v = hn::Add(v, wide_at<T>(n.residual, at, vector));
  return before_activation<kActivation>(dy, v);
}

// dresidual, the partial sums, and dx of fixed moments.
template <class T, NormActivation kActivation>
HWY_INLINE void first_pass_of(const batch_norm::Backward& n, const Part& part, const Block& block, Sums& sums) {
  const Columns columns(n.terms, n.moments, part.group, block);
  const bool dx = n.fixed && n.made.dx.data != nullptr, dresidual = n.made.dresidual.data != nullptr;
  const auto pair_at = [&](std::int64_t at, std::int64_t i, auto vector) HWY_ATTR {
    const Floats shifted = columns.shifted(wide_at<T>(n.x, at, vector), i);
    const Floats d = gradient_at<T, kActivation>(n, columns, shifted, at, i, vector);
    if (dx) put_at<T>(hn::Mul(d, columns.scale_at(i)), n.made.dx, at, vector);
    if (dresidual) put_at<T>(d, n.made.dresidual, at, vector);
    return Pair{d, shifted};
  };
  for_rows_of(
      n.terms, n.cut, part, block,
      [&](const Walk& walk) HWY_ATTR {
        if (n.partials != nullptr) {
          sums.add_all<2>(walk, pair_at);
        } else {
          for_all(walk, pair_at);
        }
      },
      [&](std::int64_t first, std::int64_t rows) {
        if (dx) put_zeros(n.terms.shape, block, first, rows, n.made.dx);
        if (dresidual) put_zeros(n.terms.shape, block, first, rows, n.made.dresidual);
      });
}

}  // namespace

void first_pass(const batch_norm::Backward& n, const Part& part) {
  const Block block(n.terms.shape, part.block);
  Sums sums;
  with_types(n.narrow, n.terms.activation,
             [&]<class T, class A>(T, A) HWY_ATTR { first_pass_of<T, A::value>(n, part, block, sums); });
  if (n.partials == nullptr) return;
  const std::int64_t channels = n.terms.shape.channels;
  sums.write(block, channels, batch_norm::partials_of(n.partials, n.cut, channels, part.slot, part.piece));
}

namespace {

// dx = scale (d - mean(d) - (x - mean) mean(d (x - mean)) / (variance + epsilon)), with the means over the group.
template <class T, NormActivation kActivation>
HWY_INLINE void second_pass_of(const batch_norm::Backward& n, const Part& part, const Block& block) {
  const std::int64_t channels = n.terms.shape.channels;
  const Columns columns(n.terms, n.moments, part.group, block);
  alignas(64) float gradient[kPeriod], projection[kPeriod];
  block.spread(n.means + part.slot * 2 * channels + block.begin, gradient);
  block.spread(n.means + (part.slot * 2 + 1) * channels + block.begin, projection);
  for_rows_of(
      n.terms, n.cut, part, block,
      [&](const Walk& walk) HWY_ATTR {
        for_all(walk, [&](std::int64_t at, std::int64_t i, auto vector) HWY_ATTR {
          const Floats shifted = columns.shifted(wide_at<T>(n.x, at, vector), i);
          const Floats d = gradient_at<T, kActivation>(n, columns, shifted, at, i, vector);
          const Floats rest = hn::Sub(d, hn::Load(F32(), gradient + i));
          const Floats dx = hn::Mul(hn::NegMulAdd(shifted, hn::Load(F32(), projection + i), rest), columns.scale_at(i));
          put_at<T>(dx, n.made.dx, at, vector);
        });
      },
      [&](std::int64_t first, std::int64_t rows) { put_zeros(n.terms.shape, block, first, rows, n.made.dx); });
}

}  // namespace

void second_pass(const batch_norm::Backward& n, const Part& part) {
  const Block block(n.terms.shape, part.block);
  with_types(n.narrow, n.terms.activation, [&]<class T, class A>(T, A) HWY_ATTR { second_pass_of<T, A::value>(n, part, block); });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(piece_statistics);
HWY_EXPORT(normalise_piece);
HWY_EXPORT(first_pass);
HWY_EXPORT(second_pass);

using batch_norm::Backward;
using batch_norm::Cut;
using batch_norm::Forward;
using batch_norm::kCombined;
using batch_norm::Part;

// Calls body(Part) for all tasks of `count` groups from `first` on.
template <class Body>
void for_parts(const Cut& cut, std::int64_t first, std::int64_t count, Body body) {
  const std::int64_t tasks = cut.tasks();
  parallel_for(count * tasks, [&](std::int64_t task) {
    const std::int64_t slot = task / tasks, part = task % tasks;
    body(Part{first + slot, slot, part / cut.blocks, part % cut.blocks});
  });
}

// Calls body(begin, end) for pieces of the channels.
template <class Body>
void for_channels(std::int64_t channels, Body body) {
  for_tiles(channels, body, kCombined);
}

// The sums of all pieces of a group for channels [begin, end).
struct Totals {
  double u[kCombined] = {}, uv[kCombined] = {};

  Totals(double* partials, const Cut& cut, std::int64_t channels, std::int64_t slot, std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = 0; piece < cut.pieces; ++piece) {
      const double* from = batch_norm::partials_of(partials, cut, channels, slot, piece) + begin;
      for (std::int64_t c = 0; c < end - begin; ++c) u[c] += from[c], uv[c] += from[channels + c];
    }
  }
};

// Mean and biased variance: the squares of fp32 are exact in fp64.
void combine_statistics(const Forward& n, std::int64_t first, std::int64_t slot, std::int64_t begin, std::int64_t end,
                        float* statistics) {
  const std::int64_t channels = n.terms.shape.channels, group = first + slot;
  const auto values = static_cast<double>(batch_norm::values_of_group(n.terms, group));
  const Totals totals(n.partials, n.cut, channels, slot, begin, end);
  float* mean = statistics + group * 2 * channels;
  for (std::int64_t c = begin; c < end; ++c) {
    const double m = values > 0 ? totals.u[c - begin] / values : 0;
    const double v = values > 0 ? totals.uv[c - begin] / values - m * m : 0;
    mean[c] = static_cast<float>(m);
    mean[channels + c] = static_cast<float>(v > 0 || std::isnan(v) ? v : 0);
  }
}

// Adds the sums of a group to dgamma and dbeta, and writes the terms of its dx.
void combine_gradients(const Backward& n, std::int64_t first, std::int64_t slot, std::int64_t begin, std::int64_t end) {
  const std::int64_t channels = n.terms.shape.channels, group = first + slot;
  const auto values = static_cast<double>(batch_norm::values_of_group(n.terms, group));
  const Totals totals(n.partials, n.cut, channels, slot, begin, end);
  const bool add = n.made.accumulate || group > 0;
  const auto put = [&](float* sums, std::int64_t c, double sum) {
    if (sums != nullptr) sums[c] = add ? sums[c] + static_cast<float>(sum) : static_cast<float>(sum);
  };
  float* means = n.means == nullptr ? nullptr : n.means + slot * 2 * channels;
  for (std::int64_t c = begin; c < end; ++c) {
    const double variance = n.moments.variance[group * n.moments.stride + c];
    const double rstd = 1 / std::sqrt(variance + static_cast<double>(n.terms.epsilon));
    const double gradient = totals.u[c - begin], projection = totals.uv[c - begin] * rstd;
    put(n.made.dgamma, c, projection);
    put(n.made.dbeta, c, gradient);
    if (means == nullptr) continue;
    means[c] = static_cast<float>(values > 0 ? gradient / values : 0);
    means[channels + c] = static_cast<float>(values > 0 ? projection * rstd / values : 0);
  }
}

Forward forward_of(const BatchNormTerms& terms, ConstElements x, ConstElements residual, Elements y, const Moments& moments,
                   double* partials) {
  const DType narrow = batch_norm::narrow_of(x.type, batch_norm::narrow_of(y.type, batch_norm::type_of(residual)));
  return {terms, Cut(terms.shape), narrow, x, residual, y, moments, partials};
}

}  // namespace

Bytes batch_norm_forward_scratch(const BatchNormShape& shape) { return Cut(shape).partials(shape.channels); }

void batch_norm_forward(const BatchNormTerms& terms, ConstElements x, ConstElements residual, Elements y, float* statistics,
                        std::byte* scratch) {
  const std::int64_t channels = terms.shape.channels;
  const Moments moments{statistics, statistics + channels, 2 * channels};
  const Forward n = forward_of(terms, x, residual, y, moments, reinterpret_cast<double*>(scratch));
  const auto sum = HWY_DYNAMIC_DISPATCH(piece_statistics), normalise = HWY_DYNAMIC_DISPATCH(normalise_piece);
  const std::int64_t tiles = ceil_div(channels, kCombined);
  for (std::int64_t first = 0; first < terms.shape.groups; first += n.cut.at_once) {
    const std::int64_t count = std::min(n.cut.at_once, terms.shape.groups - first);
    for_parts(n.cut, first, count, [&](const Part& part) { sum(n, part); });
    parallel_for(count * tiles, [&](std::int64_t task) {
      const std::int64_t begin = task % tiles * kCombined;
      combine_statistics(n, first, task / tiles, begin, std::min(channels, begin + kCombined), statistics);
    });
    for_parts(n.cut, first, count, [&](const Part& part) { normalise(n, part); });
  }
}

void fixed_norm_forward(const BatchNormTerms& terms, ConstElements x, ConstElements residual, const Moments& moments,
                        Elements y) {
  const Forward n = forward_of(terms, x, residual, y, moments, nullptr);
  const auto normalise = HWY_DYNAMIC_DISPATCH(normalise_piece);
  for_parts(n.cut, 0, terms.shape.groups, [&](const Part& part) { normalise(n, part); });
}

Bytes batch_norm_backward_scratch(const BatchNormShape& shape, bool sums, bool means) {
  const Cut cut(shape);
  if (!sums && !means) return {};
  return cut.partials(shape.channels) + (means ? Bytes{cut.at_once * 2 * shape.channels * 4} : Bytes{});
}

void batch_norm_backward(const BatchNormTerms& terms, ConstElements dy, ConstElements x, ConstElements residual,
                         const Moments& moments, bool fixed, const BatchNormGradients& made, std::byte* scratch) {
  const std::int64_t channels = terms.shape.channels;
  const bool sums = made.dgamma != nullptr || made.dbeta != nullptr, dx = !fixed && made.dx.data != nullptr;
  DType narrow = batch_norm::narrow_of(dy.type, batch_norm::narrow_of(x.type, batch_norm::type_of(residual)));
  narrow =
      batch_norm::narrow_of(narrow, batch_norm::narrow_of(batch_norm::type_of(made.dx), batch_norm::type_of(made.dresidual)));
  Backward n{terms, Cut(terms.shape), narrow, dy, x, residual, moments, fixed, made, nullptr, nullptr};
  if (sums || dx) n.partials = reinterpret_cast<double*>(scratch);
  if (dx) n.means = reinterpret_cast<float*>(scratch + n.cut.partials(channels).n);
  // The gradient before the activation is that of the residual, if that is made.
  Backward again = n;
  if (made.dresidual.data != nullptr) {
    again.dy = made.dresidual;
    again.terms.activation = ops::NormActivation::none;
  }
  const auto one = HWY_DYNAMIC_DISPATCH(first_pass), two = HWY_DYNAMIC_DISPATCH(second_pass);
  for (std::int64_t first = 0; first < terms.shape.groups; first += n.cut.at_once) {
    const std::int64_t count = std::min(n.cut.at_once, terms.shape.groups - first);
    for_parts(n.cut, first, count, [&](const Part& part) { one(n, part); });
    if (n.partials == nullptr) continue;
    for_channels(channels, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = 0; slot < count; ++slot) combine_gradients(n, first, slot, begin, end);
    });
    if (dx) for_parts(n.cut, first, count, [&](const Part& part) { two(again, part); });
  }
}

void pool_statistics(const BatchNormShape& shape, const float* statistics, const std::uint32_t* sample_ids, const float* mean,
                     bool add, double* sums) {
  const std::int64_t channels = shape.channels;
  const BatchNormTerms terms{shape, 0, ops::NormActivation::none, nullptr, nullptr, sample_ids};
  if (!add) std::fill_n(sums, 2 * channels + 1, 0.0);
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    const auto values = static_cast<double>(batch_norm::values_of_group(terms, group));
    if (values == 0) continue;
    const float* of = statistics + group * 2 * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double deviation = static_cast<double>(of[c]) - static_cast<double>(mean[c]);
      sums[c] += values * deviation;
      sums[channels + c] += values * (static_cast<double>(of[channels + c]) + deviation * deviation);
    }
    sums[2 * channels] += values;
  }
}

void move_statistics(std::int64_t channels, const double* sums, double momentum, float* mean, float* variance) {
  const double values = sums[2 * channels];
  if (!(values > 1)) return;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double deviation = sums[c] / values;
    const double unbiased = std::max(0.0, sums[channels + c] - values * deviation * deviation) / (values - 1);
    if (!std::isfinite(sums[c]) || !std::isfinite(sums[channels + c])) continue;
    mean[c] = static_cast<float>(static_cast<double>(mean[c]) + momentum * deviation);
    variance[c] = static_cast<float>(static_cast<double>(variance[c]) + momentum * (unbiased - static_cast<double>(variance[c])));
  }
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
