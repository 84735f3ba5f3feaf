// Packing of tiles, and the arithmetic on the scores of a tile between the products: the online softmax in forward, the gradient
// of the softmax in backward. Included once for each Highway target.
#if defined(PLIMSOLL_OPS_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_ATTENTION_TILES_INL_H_
#undef PLIMSOLL_OPS_ATTENTION_TILES_INL_H_
#else
#define PLIMSOLL_OPS_ATTENTION_TILES_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <limits>

#include "device/cpu/elements.h"
#include "device/cpu/narrow-inl.h"
#include "device/cpu/transpose-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "ops/attention/dropout_mask-inl.h"
#include "ops/attention/tile_gemm-inl.h"
#include "ops/attention/tiles.h"
#include "ops/softmax/exp-inl.h"
#include "tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using attention::kColumnStep;
using attention::kTileStep;

// Rows of a caller's array.
struct Source {
  ConstElements first;
  std::int64_t stride;  // elements
};

// Calls f with a pointer of the elements' type.
template <class Byte, class F>
HWY_INLINE void as_typed(const ElementsOf<Byte>& elements, const F& f) {
  if (elements.type == DType::bf16) return f(elements.template as<std::uint16_t>());
  if (elements.type == DType::f16) return f(elements.template as<F16>());
  f(elements.template as<float>());
}

HWY_INLINE float widened(float x) { return x; }
HWY_INLINE float widened(std::uint16_t x) { return widen_bf16(x); }
HWY_INLINE float widened(F16 x) { return widen_f16(static_cast<std::uint16_t>(x)); }

HWY_INLINE void zero_fill(float* p, std::int64_t floats) { std::memset(p, 0, static_cast<std::size_t>(floats) * 4); }

template <class T>
HWY_NOINLINE void pack_typed_rows(const T* from, std::int64_t stride, int rows, int columns, float factor, const Matrix& to) {
  const Floats scale = hn::Set(F32(), factor);
  for (int r = 0; r < rows; ++r) {
    const T* HWY_RESTRICT in = from + r * stride;
    float* HWY_RESTRICT out = to.at(r, 0);
    int c = 0;
    for (; c + kLanes <= columns; c += kLanes) hn::StoreU(hn::Mul(load(in + c), scale), F32(), out + c);
    for (; c < columns; ++c) out[c] = widened(in[c]) * factor;
    for (; c < to.stride; ++c) out[c] = 0;
  }
}

// to = factor * from; columns up to `to.stride` and rows up to a multiple of kTileStep become zero.
HWY_INLINE void pack_rows(const Source& from, int rows, int columns, float factor, const Matrix& to) {
  as_typed(from.first, [&](const auto* in) HWY_ATTR { pack_typed_rows(in, from.stride, rows, columns, factor, to); });
  zero_fill(to.at(rows, 0), (round_up(rows, kTileStep) - rows) * to.stride);
}

// to [columns x rows] = from^T, of packed rows; columns of `to` up to a multiple of kColumnStep become zero.
HWY_NOINLINE void pack_transposed(const Matrix& from, int rows, int columns, const Matrix& to) {
  transpose(from.data, from.stride, rows, columns, to.data, to.stride);
  const std::int64_t rest = round_up(rows, kColumnStep) - rows;
  for (int c = 0; rest > 0 && c < columns; ++c) zero_fill(to.at(c, rows), rest);
}

// out [columns] = or += factor * in [columns].
template <bool kAdd>
HWY_INLINE void write_floats(const float* HWY_RESTRICT in, int columns, float factor, float* HWY_RESTRICT out) {
  const Floats scale = hn::Set(F32(), factor);
  int c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    const Floats value = hn::Mul(hn::LoadU(F32(), in + c), scale);
    hn::StoreU(kAdd ? hn::Add(hn::LoadU(F32(), out + c), value) : value, F32(), out + c);
  }
  for (; c < columns; ++c) out[c] = (kAdd ? out[c] : 0.0f) + in[c] * factor;
}

// The same to a row of the caller's buffer, rounded to its type.
template <class T>
HWY_INLINE void write_typed(const float* HWY_RESTRICT in, int columns, float factor, T* HWY_RESTRICT out) {
  const Floats scale = hn::Set(F32(), factor);
  int c = 0;
  for (; c + kLanes <= columns; c += kLanes) store(hn::Mul(hn::LoadU(F32(), in + c), scale), out + c);
  if (c < columns) store_part(hn::Mul(load_part(in + c, columns - c), scale), out + c, columns - c);
}
HWY_INLINE void write_typed(const float* HWY_RESTRICT in, int columns, float factor, float* HWY_RESTRICT out) {
  write_floats<false>(in, columns, factor, out);
}
HWY_INLINE void write_row(const float* HWY_RESTRICT in, int columns, float factor, const Elements& to) {
  as_typed(to, [&](auto* out) HWY_ATTR { write_typed(in, columns, factor, out); });
}

// Sum of products in a fixed order: lanes of one vector, then the rest.
template <class T>
HWY_INLINE float dot_typed(const float* HWY_RESTRICT a, const T* HWY_RESTRICT b, int n) {
  Floats sum = hn::Zero(F32());
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = hn::MulAdd(hn::LoadU(F32(), a + i), load(b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(F32(), sum));
  for (; i < n; ++i) total += a[i] * widened(b[i]);
  return total;
}
HWY_INLINE float dot(const float* a, const ConstElements& b, int n) {
  float result = 0;
  as_typed(b, [&](const auto* p) HWY_ATTR { result = dot_typed(a, p, n); });
  return result;
}

HWY_INLINE int keys_seen(const Visible& tile, int row) { return std::min(tile.keys, tile.diagonal + row + 1); }

// Largest of scores [count]; lanes past the end of the last vector do not count.
HWY_INLINE float row_maximum(const float* HWY_RESTRICT scores, int count) {
  const Floats lowest = hn::Set(F32(), -std::numeric_limits<float>::infinity());
  Floats best = lowest;
  int c = 0;
  for (; c + kLanes <= count; c += kLanes) best = hn::Max(best, hn::Load(F32(), scores + c));
  if (c < count) {
    const auto valid = hn::FirstN(F32(), static_cast<std::size_t>(count - c));
    best = hn::Max(best, hn::IfThenElse(valid, hn::Load(F32(), scores + c), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(F32(), best));
}

// maximum = new maxima; alpha = exp(old - new), the factor of each row's earlier sums and outputs.
HWY_INLINE void raise_maxima(const Visible& tile, const Matrix& scores, float* HWY_RESTRICT maximum, float* HWY_RESTRICT alpha) {
  for (int r = 0; r < tile.queries; ++r) alpha[r] = row_maximum(scores.at(r, 0), keys_seen(tile, r));
  for (int r = 0; r < tile.queries; r += kLanes) {
    const Floats before = hn::Load(F32(), maximum + r);
    const Floats after = hn::Max(before, hn::Load(F32(), alpha + r));
    hn::Store(after, F32(), maximum + r);
    hn::Store(exp_fp32(F32(), hn::Sub(before, after)), F32(), alpha + r);
  }
}

// scores [count] -> exp(scores - maximum), times the mask if kDropout; zero up to `width`. Returns the sum before the mask.
template <bool kDropout>
HWY_INLINE Floats exponentials(float* HWY_RESTRICT scores, int count, int width, float maximum, const float* HWY_RESTRICT mask) {
  const Floats top = hn::Set(F32(), maximum);
  Floats sum = hn::Zero(F32());
  int c = 0;
  for (; c + kLanes <= count; c += kLanes) {
    const Floats p = exp_fp32(F32(), hn::Sub(hn::Load(F32(), scores + c), top));
    sum = hn::Add(sum, p);
    hn::Store(kDropout ? hn::Mul(p, hn::LoadU(F32(), mask + c)) : p, F32(), scores + c);
  }
  if (c < count) {
    const auto valid = hn::FirstN(F32(), static_cast<std::size_t>(count - c));
    const Floats p = hn::IfThenElseZero(valid, exp_fp32(F32(), hn::Sub(hn::Load(F32(), scores + c), top)));
    sum = hn::Add(sum, p);
    hn::Store(kDropout ? hn::IfThenElseZero(valid, hn::Mul(p, hn::LoadU(F32(), mask + c))) : p, F32(), scores + c);
    c += kLanes;
  }
  for (; c < width; c += kLanes) hn::Store(hn::Zero(F32()), F32(), scores + c);
  return sum;
}

// The place of a tile in the counters of noise.
struct Position {
  std::uint64_t head, tokens, first_query, first_key;
  const std::uint32_t* ids = nullptr;  // {epoch, sample, position} of each query; null: the row is one sample

  // Factors of `count` keys that a row of the tile sees. Factors of keys before its sample have no effect.
  HWY_INLINE const float* mask(MaskStream& stream, int row, int count, float* HWY_RESTRICT buffer) const {
    const std::uint64_t query = first_query + static_cast<std::uint64_t>(row);
    if (ids == nullptr) return fill_mask(stream, (head * tokens + query) * tokens + first_key, count, buffer);
    const std::uint32_t* id = ids + 3 * row;
    stream.take(id[0], id[1]);
    const std::uint64_t position = id[2], back = query - first_key;  // to the first key
    const int before = back > position ? static_cast<int>(HWY_MIN(back - position, static_cast<std::uint64_t>(count))) : 0;
    const std::uint64_t element = (head * tokens + position) * tokens + position + static_cast<std::uint64_t>(before) - back;
    const float* const seen = before < count ? fill_mask(stream, element, count - before, buffer + before) : buffer + before;
    float* const first = buffer + (seen - (buffer + before));
    zero_fill(first, before);
    return first;
  }
};

// One tile's step of the online softmax. `sums` [queries x lanes] are the running denominators, lane by lane.
template <bool kDropout>
HWY_NOINLINE void softmax_tile(const Visible& tile, const Matrix& scores, const MaskStream& stream, const Position& position,
                               float* HWY_RESTRICT maximum, float* HWY_RESTRICT alpha, float* HWY_RESTRICT sums,
                               float* HWY_RESTRICT mask_buffer) {
  raise_maxima(tile, scores, maximum, alpha);
  MaskStream noise = stream;
  for (int r = 0; r < tile.queries; ++r, sums += kLanes) {
    const int count = keys_seen(tile, r);
    const float* mask = kDropout ? position.mask(noise, r, count, mask_buffer) : nullptr;
    const Floats sum = exponentials<kDropout>(scores.at(r, 0), count, tile.keys, maximum[r], mask);
    hn::Store(hn::MulAdd(hn::Load(F32(), sums), hn::Set(F32(), alpha[r]), sum), F32(), sums);
  }
}

struct Gradients {
  Floats weight, d_score;
};

// weight = probability * mask, d_score = probability * (d_weight * mask - delta).
template <bool kDropout>
HWY_INLINE Gradients gradients_at(const float* scores, const float* d_weights, const float* mask, int column, Floats lse,
                                  Floats delta) {
  const Floats p = exp_fp32(F32(), hn::Sub(hn::Load(F32(), scores + column), lse));
  const Floats d_weight = hn::Load(F32(), d_weights + column);
  if constexpr (kDropout) {
    const Floats m = hn::LoadU(F32(), mask + column);
    return {hn::Mul(p, m), hn::Mul(p, hn::MulSub(d_weight, m, delta))};
  } else {
    return {p, hn::Mul(p, hn::Sub(d_weight, delta))};
  }
}

// scores -> probabilities after dropout, d_weights -> gradient of the scores; masked elements are zero.
template <bool kDropout>
HWY_NOINLINE void softmax_gradient_tile(const Visible& tile, const Matrix& scores, const Matrix& d_weights,
                                        const MaskStream& stream, const Position& position, const float* HWY_RESTRICT lse,
                                        const float* HWY_RESTRICT delta, float* HWY_RESTRICT mask_buffer) {
  MaskStream noise = stream;
  for (int r = 0; r < tile.queries; ++r) {
    const int count = keys_seen(tile, r);
    const float* mask = kDropout ? position.mask(noise, r, count, mask_buffer) : nullptr;
    const Floats row_lse = hn::Set(F32(), lse[r]), row_delta = hn::Set(F32(), delta[r]);
    float *s = scores.at(r, 0), *dw = d_weights.at(r, 0);
    int c = 0;
    for (; c + kLanes <= count; c += kLanes) {
      const Gradients g = gradients_at<kDropout>(s, dw, mask, c, row_lse, row_delta);
      hn::Store(g.weight, F32(), s + c);
      hn::Store(g.d_score, F32(), dw + c);
    }
    if (c < count) {
      const auto valid = hn::FirstN(F32(), static_cast<std::size_t>(count - c));
      const Gradients g = gradients_at<kDropout>(s, dw, mask, c, row_lse, row_delta);
      hn::Store(hn::IfThenElseZero(valid, g.weight), F32(), s + c);
      hn::Store(hn::IfThenElseZero(valid, g.d_score), F32(), dw + c);
      c += kLanes;
    }
    for (; c < tile.keys; c += kLanes) {
      hn::Store(hn::Zero(F32()), F32(), s + c);
      hn::Store(hn::Zero(F32()), F32(), dw + c);
    }
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_ATTENTION_TILES_INL_H_
