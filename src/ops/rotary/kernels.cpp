#include "ops/rotary/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/elementwise/tiles.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rotary/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/narrow-inl.h"
#include "hwy/highway.h"

#ifndef PLIMSOLL_OPS_ROTARY_KERNELS_ONCE_
#define PLIMSOLL_OPS_ROTARY_KERNELS_ONCE_
namespace plimsoll::cpu::rotary {

inline constexpr std::int64_t kPairs = 128;  // whose cosines and sines are on the stack at a time

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

// Of some pairs of a token. Where pairs are interleaved each has two of both, so that (a, b) turns into (a, b) cosines + (b, a)
// sines.
struct Turn {
  alignas(64) float cosines[2 * kPairs];
  alignas(64) float sines[2 * kPairs];

  template <class T>
  void set(const Call& call, std::int32_t position, std::int64_t begin, std::int64_t end) {
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

}  // namespace plimsoll::cpu::rotary
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// x and out begin with the first numbers of the pairs, and the second ones are `apart` behind.
template <class T>
HWY_INLINE void turn_halves(const rotary::Turn& turn, std::int64_t pairs, std::int64_t apart, const T* x, T* out) {
  std::int64_t i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    const Floats a = load(x + i), b = load(x + apart + i);
    const Floats c = hn::Load(F32(), turn.cosines + i), s = hn::Load(F32(), turn.sines + i);
    store(hn::MulSub(a, c, hn::Mul(b, s)), out + i);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), out + apart + i);
  }
  if (i == pairs) return;
  const std::int64_t rest = pairs - i;
  const Floats a = load_part(x + i, rest), b = load_part(x + apart + i, rest);
  const Floats c = load_part(turn.cosines + i, rest), s = load_part(turn.sines + i, rest);
  store_part(hn::MulSub(a, c, hn::Mul(b, s)), out + i, rest);
  store_part(hn::MulAdd(a, s, hn::Mul(b, c)), out + apart + i, rest);
}

HWY_INLINE Floats turned(Floats v, Floats c, Floats s) { return hn::MulAdd(hn::Reverse2(F32(), v), s, hn::Mul(v, c)); }

template <class T>
HWY_INLINE void turn_neighbours(const rotary::Turn& turn, std::int64_t pairs, const T* x, T* out) {
  std::int64_t i = 0;
  for (; i + kLanes <= 2 * pairs; i += kLanes) {
    store(turned(load(x + i), hn::Load(F32(), turn.cosines + i), hn::Load(F32(), turn.sines + i)), out + i);
  }
  const std::int64_t rest = 2 * pairs - i;
  if (rest == 0) return;
  const Floats c = load_part(turn.cosines + i, rest), s = load_part(turn.sines + i, rest);
  store_part(turned(load_part(x + i, rest), c, s), out + i, rest);
}

template <class T>
HWY_INLINE void rotate_token(const rotary::Call& call, rotary::Turn& turn, std::int64_t token) {
  const RotaryShape& s = call.shape;
  const auto pairs = static_cast<std::int64_t>(call.inverse_frequencies.size());
  const std::int64_t width = s.heads * s.head_size, left = s.head_size - 2 * pairs;
  const std::int32_t position = call.positions != nullptr ? call.positions[token] : static_cast<std::int32_t>(token);
  const auto for_heads = [&](auto body) HWY_ATTR {
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const std::int64_t row = (b * s.tokens + token) * width;
      for (std::int64_t h = row; h < row + width; h += s.head_size) body(call.x.as<T>() + h, call.out.as<T>() + h);
    }
  };
  for (std::int64_t begin = 0; begin < pairs; begin += rotary::kPairs) {
    const std::int64_t end = std::min(pairs, begin + rotary::kPairs);
    turn.set<T>(call, position, begin, end);
    if (s.interleaved) {
      for_heads([&](const T* x, T* out) HWY_ATTR { turn_neighbours(turn, end - begin, x + 2 * begin, out + 2 * begin); });
    } else {
      for_heads([&](const T* x, T* out) HWY_ATTR { turn_halves(turn, end - begin, pairs, x + begin, out + begin); });
    }
  }
  if (left == 0 || call.x.data == call.out.data) return;
  for_heads([&](const T* x, T* out) { std::memcpy(out + 2 * pairs, x + 2 * pairs, static_cast<std::size_t>(left) * sizeof(T)); });
}

void rotate_tokens(const rotary::Call& call, std::int64_t begin, std::int64_t end) {
  rotary::Turn turn;
  const auto rotate_all = [&]<class T>(T) HWY_ATTR {
    for (std::int64_t token = begin; token < end; ++token) rotate_token<T>(call, turn, token);
  };
  if (call.x.type == DType::bf16) return rotate_all(std::uint16_t{});
  if (call.x.type == DType::f16) return rotate_all(F16{});
  rotate_all(0.0F);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(rotate_tokens);

void rotate(const RotaryShape& shape, std::span<const float> inverse_frequencies, float factor, const std::int32_t* positions,
            ConstElements x, Elements out) {
  rotary::Call call{shape, inverse_frequencies, factor, positions, x, out};
  if (positions != nullptr) call.shape.tokens = shape.batch * shape.tokens, call.shape.batch = 1;  // a turn for each
  const std::int64_t elements = call.shape.batch * shape.heads * shape.head_size;
  for_tiles(
      call.shape.tokens, [&](std::int64_t begin, std::int64_t end) { HWY_DYNAMIC_DISPATCH(rotate_tokens)
                                                                     (call, begin, end); },
      std::max<std::int64_t>(1, kElementTile / std::max<std::int64_t>(1, elements)));
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
