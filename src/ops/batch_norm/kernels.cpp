#include "ops/batch_norm/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/ceil_div.h"
#include "ops/batch_norm/tiles.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/batch_norm/kernels.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "ops/batch_norm/rows-inl.h"
#include "ops/elementwise/activations-inl.h"

#ifndef PLIMSOLL_OPS_BATCH_NORM_KERNELS_ONCE_
#define PLIMSOLL_OPS_BATCH_NORM_KERNELS_ONCE_
namespace plimsoll::cpu::batch_norm {

using ops::NormActivation;

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

inline DType narrow_of(DType a, DType b) { return a == DType::f32 ? b : a; }
inline DType type_of(const ConstElements& e) { return e.data == nullptr ? DType::f32 : e.type; }

}  // namespace plimsoll::cpu::batch_norm
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {
namespace {

using batch_norm::NormActivation;

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
    for_tiles(
        channels,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t slot = 0; slot < count; ++slot) combine_gradients(n, first, slot, begin, end);
        },
        kCombined);
    if (dx) for_parts(n.cut, first, count, [&](const Part& part) { two(again, part); });
  }
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
