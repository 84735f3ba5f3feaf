#include "ops/rotary/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rotary/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"

#ifndef PLIMSOLL_OPS_ROTARY_KERNELS_ONCE_
#define PLIMSOLL_OPS_ROTARY_KERNELS_ONCE_
namespace plimsoll::cpu::rotary {

// Cosines and sines on the stack at a time: up to kPairs pairs of a token, and as many tokens as kNumbers have room for.
inline constexpr std::int64_t kPairs = 512, kNumbers = 2048;
inline constexpr std::int64_t kTokens = 8;  // least tokens of a task, so that its reads of a sample are contiguous

struct Call {
  RotaryShape shape;
  std::span<const float> inverse_frequencies;
  float factor;
  const std::int32_t* positions;
  ConstElements x;
  Elements out;
};

inline float rounded(float, float x) { return x; }
inline float rounded(std::uint16_t, float x) { return widen_bf16(narrow_bf16(x)); }
inline float rounded(F16, float x) { return widen_f16(narrow_f16(x)); }

// Cosines and sines of some pairs of a token. An interleaved pair has two of both: (a, b) turns into (a, b) cosines + (b, a)
// sines.
struct Turn {
  float *cosines, *sines;

  template <class T>
  void set(const Call& call, std::int64_t token, std::int64_t begin, std::int64_t end) const {
    const std::int32_t position = call.positions != nullptr ? call.positions[token] : static_cast<std::int32_t>(token);
    for (std::int64_t i = 0; i < end - begin; ++i) {
      const float angle = static_cast<float>(position) * call.inverse_frequencies[static_cast<std::size_t>(begin + i)];
      const float cosine = rounded(T{}, std::cos(angle) * call.factor), plain = rounded(T{}, std::sin(angle) * call.factor);
      const float sine = call.shape.inverse ? -plain : plain;
      if (call.shape.interleaved) {
        cosines[2 * i] = cosines[2 * i + 1] = cosine;
        sines[2 * i] = -sine, sines[2 * i + 1] = sine;
      } else {
        cosines[i] = cosine, sines[i] = sine;
      }
    }
  }
};

struct Turns {
  alignas(64) float cosines[kNumbers];
  alignas(64) float sines[kNumbers];

  Turn at(std::int64_t number) { return {cosines + number, sines + number}; }
};

}  // namespace plimsoll::cpu::rotary
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// x and out point to the first numbers of the pairs; the second numbers are `apart` elements further.
template <class T>
HWY_INLINE void turn_halves(const rotary::Turn& turn, std::int64_t pairs, std::int64_t apart, const T* x, T* out) {
  for_vectors(pairs, [&](std::int64_t i, auto vector) HWY_ATTR {
    const Floats a = load_at(x + i, vector), b = load_at(x + apart + i, vector);
    const Floats c = load_at(turn.cosines + i, vector), s = load_at(turn.sines + i, vector);
    store_at(hn::MulSub(a, c, hn::Mul(b, s)), out + i, vector);
    store_at(hn::MulAdd(a, s, hn::Mul(b, c)), out + apart + i, vector);
  });
}

template <class T>
HWY_INLINE void turn_neighbours(const rotary::Turn& turn, std::int64_t pairs, const T* x, T* out) {
  const auto turned = [](Floats v, Floats c, Floats s) HWY_ATTR { return hn::MulAdd(hn::Reverse2(F32(), v), s, hn::Mul(v, c)); };
  map_range(0, 2 * pairs, turned, out, x, const_cast<const float*>(turn.cosines), const_cast<const float*>(turn.sines));
}

// Calls body(token, x, out) for each head of the tokens, sample by sample.
template <class T, class Body>
HWY_INLINE void for_heads(const rotary::Call& call, std::int64_t begin, std::int64_t end, Body body) {
  const RotaryShape& s = call.shape;
  const std::int64_t width = s.heads * s.head_size;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t row = (b * s.tokens + token) * width;
      for (std::int64_t h = row; h < row + width; h += s.head_size) body(token, call.x.as<T>() + h, call.out.as<T>() + h);
    }
  }
}

// Rotates the pairs [first, last) of some tokens.
template <class T>
HWY_INLINE void rotate_pairs(const rotary::Call& call, rotary::Turns& turns, std::int64_t begin, std::int64_t end,
                             std::int64_t first, std::int64_t last) {
  const auto all = static_cast<std::int64_t>(call.inverse_frequencies.size());
  const std::int64_t pairs = last - first, stride = round_up(call.shape.interleaved ? 2 * pairs : pairs, 16);
  for (std::int64_t from = begin; from < end; from += rotary::kNumbers / stride) {
    const std::int64_t to = std::min(end, from + rotary::kNumbers / stride);
    for (std::int64_t token = from; token < to; ++token) turns.at((token - from) * stride).set<T>(call, token, first, last);
    if (call.shape.interleaved) {
      for_heads<T>(call, from, to, [&](std::int64_t token, const T* x, T* out) HWY_ATTR {
        turn_neighbours(turns.at((token - from) * stride), pairs, x + 2 * first, out + 2 * first);
      });
    } else {
      for_heads<T>(call, from, to, [&](std::int64_t token, const T* x, T* out) HWY_ATTR {
        turn_halves(turns.at((token - from) * stride), pairs, all, x + first, out + first);
      });
    }
  }
}

template <class T>
HWY_INLINE void rotate_tokens_of(const rotary::Call& call, std::int64_t begin, std::int64_t end) {
  rotary::Turns turns;
  const auto pairs = static_cast<std::int64_t>(call.inverse_frequencies.size());
  for (std::int64_t first = 0; first < pairs; first += rotary::kPairs) {
    rotate_pairs<T>(call, turns, begin, end, first, std::min(pairs, first + rotary::kPairs));
  }
  const auto left = static_cast<std::size_t>(call.shape.head_size - 2 * pairs) * sizeof(T);
  if (left == 0 || call.x.data == call.out.data) return;
  for_heads<T>(call, begin, end, [=](std::int64_t, const T* x, T* out) { std::memcpy(out + 2 * pairs, x + 2 * pairs, left); });
}

void rotate_tokens(const rotary::Call& call, std::int64_t begin, std::int64_t end) {
  with_type(call.x.type, [&]<class T>(T) HWY_ATTR { rotate_tokens_of<T>(call, begin, end); });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(rotate_tokens);

void rotate(const RotaryShape& shape, std::span<const float> inverse_frequencies, float factor, const std::int32_t* positions,
            ConstElements x, Elements out) {
  rotary::Call call{shape, inverse_frequencies, factor, positions, x, out};
  if (positions != nullptr)
    call.shape.tokens = shape.batch * shape.tokens, call.shape.batch = 1;  // each token has its own angles
  const std::int64_t elements = call.shape.batch * shape.heads * shape.head_size;
  const auto rotate = HWY_DYNAMIC_DISPATCH(rotate_tokens);
  for_tiles(
      call.shape.tokens, [&](std::int64_t begin, std::int64_t end) { rotate(call, begin, end); },
      std::max(rotary::kTokens, kElementTile / std::max<std::int64_t>(1, elements)));
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
