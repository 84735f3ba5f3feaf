#include "ops/update/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/update/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/coded-inl.h"
#include "device/cpu/map-inl.h"
#include "device/cpu/philox-inl.h"
#include "hwy/highway.h"
#include "ops/update/taken-inl.h"
#include "ops/update/update.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// Random bits of a vector's elements; narrow numbers take 16 of them in turn.
struct Noise {
  Words now, next;
  HWY_INLINE Words take() {
    const Words taken = hn::And(now, hn::Set(U32(), 0xffff));
    now = hn::Or(hn::ShiftRight<16>(now), hn::ShiftLeft<16>(next));
    next = hn::ShiftRight<16>(next);
    return taken;
  }
};

// The bits decide whether the lost bits round up.
HWY_INLINE void store(Floats v, float* p, Noise&) { store(v, p); }
HWY_INLINE void store(Floats v, std::uint16_t* p, Noise& noise) {
  store_upper_halves(v, hn::Add(hn::BitCast(U32(), v), noise.take()), p);
}

HWY_INLINE void store_part(Floats v, float* p, std::int64_t count, Noise&) { store_part(v, p, count); }
HWY_INLINE void store_part(Floats v, std::uint16_t* p, std::int64_t count, Noise& noise) {
  alignas(64) std::uint16_t lanes[kLanes];
  store(v, lanes, noise);
  std::memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(std::uint16_t));
}

HWY_INLINE Noise no_noise() { return {hn::Zero(U32()), hn::Zero(U32())}; }

// The sums of squares of a Change, lane by lane.
struct Changes {
  Floats before, step;  // they begin as zeros
  HWY_INLINE void see(Floats from, Floats to) {
    const Floats added = hn::Sub(to, from);
    before = hn::MulAdd(from, from, before);
    step = hn::MulAdd(added, added, step);
  }
  // Takes the sums of the first lanes from `now`: numbers past the end of a range may be NaN.
  HWY_INLINE void take(const Changes& now, std::int64_t lanes) {
    const auto first = hn::FirstN(F32(), static_cast<std::size_t>(lanes));
    before = hn::IfThenElse(first, now.before, before);
    step = hn::IfThenElse(first, now.step, step);
  }
  HWY_INLINE Change total() const {
    return {hn::GetLane(hn::SumOfLanes(F32(), before)), hn::GetLane(hn::SumOfLanes(F32(), step))};
  }
};

// Runs f(changes, g, states...) on vectors of a gradient and of the states, which it updates in place. f is passed by value, so
// that its captures can stay in registers although the loop writes floats. `noise_of(i)`: the noise of the vector at element i.
template <class F, class NoiseOf, class G, class... State>
HWY_INLINE void update_range(std::int64_t begin, std::int64_t end, F f, NoiseOf noise_of, Changes& changes, const G* g,
                             State*... states) {
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    fetch_ahead(g + i);
    (fetch_ahead(states + i), ...);
    [&](auto... v) HWY_ATTR {
      f(changes, load(g + i), v...);
      Noise noise = noise_of(i);
      (store(v, states + i, noise), ...);
    }(load(states + i)...);
  }
  if (i == end) return;
  [&](auto... v) HWY_ATTR {
    Changes now = changes;
    f(now, load_part(g + i, end - i), v...);
    changes.take(now, end - i);
    Noise noise = noise_of(i);
    (store_part(v, states + i, end - i, noise), ...);
  }(load_part(states + i, end - i)...);
}

inline constexpr std::int64_t kBlock = ops::kCodedBlock;

// Elements whose noise is made at a time, few enough for the first-level cache.
inline constexpr std::int64_t kNoisePiece = 1024;
inline constexpr std::int64_t kNoiseOverrun = 64;  // it comes in groups of up to 32 words

// The words of elements [begin, end); begin is a multiple of four. There is one stream for the states, and a second one for
// numbers without bits in the first.
class NoiseWords {
 public:
  NoiseWords(const StochasticRounding& rounding, bool two)
      : states_(stream(rounding, 0)),
        parameter_(stream(rounding, kSecond)),
        first_(rounding.first),
        two_(two),
        nearest_(rounding.key == decltype(rounding.key){}) {
    constexpr std::uint32_t kHalves = 0x80008000u;  // half of the lost bits' range, in both halves of a word
    if (nearest_) std::fill_n(&words_[0][0], 2 * (kNoisePiece + kNoiseOverrun), kHalves);
  }

  HWY_INLINE void draw(std::int64_t begin, std::int64_t end) {
    begin_ = begin;
    if (nearest_) return;
    draw(states_, end, words_[0]);
    if (two_) draw(parameter_, end, words_[1]);
  }
  HWY_INLINE Noise of(std::int64_t i) const {
    const Words now = hn::LoadU(U32(), words_[0] + (i - begin_));
    return {now, two_ ? hn::LoadU(U32(), words_[1] + (i - begin_)) : hn::Zero(U32())};
  }
  const std::uint32_t* states() const { return words_[0]; }
  HWY_INLINE Noise second(std::int64_t i) const { return {hn::LoadU(U32(), words_[1] + i), hn::Zero(U32())}; }

 private:
  static constexpr std::uint32_t kSecond = 0x80000000u;  // above any number of updates
  static PhiloxStream stream(const StochasticRounding& rounding, std::uint32_t which) {
    return {rounding.key, static_cast<std::uint32_t>(rounding.update), static_cast<std::uint32_t>(rounding.update >> 32) ^ which};
  }
  HWY_INLINE void draw(const PhiloxStream& stream, std::int64_t end, std::uint32_t* words) const {
    for_philox_words(stream, static_cast<std::uint64_t>(first_ + begin_) / 4, static_cast<int>((end - begin_ + 3) / 4),
                     [&](Words some, int i) HWY_ATTR { hn::StoreU(some, U32(), words + i); });
  }

  PhiloxStream states_, parameter_;
  std::int64_t first_, begin_ = 0;
  bool two_, nearest_;
  alignas(64) std::uint32_t words_[2][kNoisePiece + kNoiseOverrun];
};

// `tiles`: the changes of each kElementTile elements, or null.
template <class F, class G, class... State>
HWY_INLINE void update_tiles(std::int64_t n, F f, const StochasticRounding& rounding, Change* tiles, const G* g,
                             State*... states) {
  constexpr int kNarrow = (int{!std::is_same_v<State, float>} + ...);
  if constexpr (kNarrow == 0) {
    const auto none = [](std::int64_t) HWY_ATTR { return no_noise(); };
    for_tiles(n, [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
      Changes changes{hn::Zero(F32()), hn::Zero(F32())};
      update_range(begin, end, f, none, changes, g, states...);
      if (tiles != nullptr) tiles[begin / kElementTile] = changes.total();
    });
  } else {
    for_tiles(n, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      static_assert(kElementTile % kNoisePiece == 0 && kNoisePiece % 4 == 0);
      NoiseWords words(rounding, kNarrow > 2);
      Changes changes{hn::Zero(F32()), hn::Zero(F32())};
      for (std::int64_t at = begin; at < end; at += kNoisePiece) {
        const std::int64_t stop = HWY_MIN(end, at + kNoisePiece);
        words.draw(at, stop);
        update_range(
            at, stop, f, [&](std::int64_t i) HWY_ATTR { return words.of(i); }, changes, g, states...);
      }
      if (tiles != nullptr) tiles[begin / kElementTile] = changes.total();
    });
  }
}

// Ranges begin with a tile, so that the sums do not depend on them.
static_assert(ops::kNormTile % kElementTile == 0);

// The update f(gradient, parameter, states...) with the sums of its changes.
template <class F>
HWY_INLINE auto measured(F f) {
  return [=](Changes& changes, Floats gradient, Floats& parameter, auto&... states) HWY_ATTR {
    const Floats before = parameter;
    f(gradient, parameter, states...);
    changes.see(before, parameter);
  };
}

// A measured update with the average of the parameter, which is the first changed operand.
template <class F>
HWY_INLINE auto followed(F f, const Average& average) {
  const float blend = static_cast<float>(average.blend);
  const bool first = average.first;
  return [=](Changes& changes, Floats gradient, Floats& follows, Floats& parameter, auto&... rest) HWY_ATTR {
    f(changes, gradient, parameter, rest...);
    follows = first ? parameter : hn::MulAdd(set(blend), hn::Sub(parameter, follows), follows);
  };
}

// The operands of every update but its states.
struct Operands {
  std::int64_t n;
  ConstElements g;
  Elements p;
  const Average& average;
  const StochasticRounding& rounding;
  Change* tiles;

  // Calls body with pointers of the types of gradient and parameter.
  template <class Body>
  HWY_INLINE void with_widths(Body body) const {
    with_f32_or_bf16(
        g.type, [&]<class G>(G) HWY_ATTR { with_f32_or_bf16(p.type, [&]<class P>(P) HWY_ATTR { body(g.as<G>(), p.as<P>()); }); });
  }
};

template <class F, class... State>
HWY_INLINE void update_all(const Operands& o, F f, State*... states) {
  o.with_widths([&](auto* g, auto* p) HWY_ATTR {
    const auto update = measured(f);
    if (o.average.numbers == nullptr) return update_tiles(o.n, update, o.rounding, o.tiles, g, p, states...);
    const auto with_average = followed(update, o.average);
    update_tiles(o.n, with_average, o.rounding, o.tiles, g, o.average.numbers, p, states...);
  });
}

// A state of 8 bits, processed by block.
template <bool kSigned>
struct CodedState {
  std::uint8_t* codes;
  float* scales;

  explicit CodedState(const StateNumbers& state) : codes(reinterpret_cast<std::uint8_t*>(state.data)), scales(state.scales) {}

  void read(std::int64_t begin, std::int64_t count, float* numbers) const {
    alignas(64) std::uint8_t block[kBlock] = {};
    std::memcpy(block, codes + begin, static_cast<std::size_t>(count));
    const Floats scale = set(scales[begin / kBlock]);
    for (std::int64_t i = 0; i < kBlock; i += kLanes) store(Coded<kSigned>::decode(block + i, scale), numbers + i);
  }

  // `shift`: position of this state's 16 bits in the random words.
  void write(std::int64_t begin, std::int64_t count, const float* numbers, const std::uint32_t* words, int shift) const {
    // Elements past `count` are zeros. NaN stays NaN.
    Floats most = hn::Zero(F32()), odd = hn::Zero(F32());
    for (std::int64_t i = 0; i < kBlock; i += kLanes) {
      const Floats size = hn::Abs(load(numbers + i));
      most = hn::Max(size, most);
      odd = hn::IfThenElse(hn::IsNaN(size), size, odd);
    }
    const float no_number = hn::GetLane(hn::SumOfLanes(F32(), odd));
    const float largest = std::isnan(no_number) ? no_number : hn::GetLane(hn::MaxOfLanes(F32(), most));
    scales[begin / kBlock] = largest / Coded<kSigned>::kLargest;
    const Floats inverse = set(largest > 0 ? Coded<kSigned>::kLargest / largest : 0.0F);
    alignas(64) std::uint8_t block[kBlock];
    for (std::int64_t i = 0; i < kBlock; i += kLanes) {
      const Words noise = hn::LoadU(U32(), words + i);
      Coded<kSigned>::encode(load(numbers + i), inverse, shift == 0 ? noise : hn::ShiftRight<16>(noise), block + i);
    }
    std::memcpy(codes + begin, block, static_cast<std::size_t>(count));
  }
};

// Like update_all, block by block: each block is decoded, updated in fp32 and coded again.
template <class F, class G, class P, bool... kSigned>
HWY_INLINE void update_blocks(const Operands& o, F f, const G* g, P* p, CodedState<kSigned>... states) {
  constexpr std::size_t kStates = sizeof...(states);
  constexpr bool kNarrow = !std::is_same_v<P, float>;
  const auto update = measured(f);
  const auto with_average = followed(update, o.average);
  for_tiles(o.n, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    static_assert(kElementTile % kBlock == 0 && kBlock % 4 == 0 && kBlock <= kNoisePiece);
    NoiseWords words(o.rounding, kNarrow);
    Changes changes{hn::Zero(F32()), hn::Zero(F32())};
    alignas(64) float numbers[kStates][kBlock];
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t count = HWY_MIN(end - at, kBlock);
      words.draw(at, at + kBlock);
      const auto of_parameter = [&](std::int64_t i) HWY_ATTR { return kNarrow ? words.second(i) : no_noise(); };
      std::size_t state = 0;
      (states.read(at, count, numbers[state++]), ...);
      const auto run = [&]<std::size_t... i>(std::index_sequence<i...>) HWY_ATTR {
        if (o.average.numbers == nullptr) {
          update_range(0, count, update, of_parameter, changes, g + at, p + at, numbers[i]...);
        } else {
          update_range(0, count, with_average, of_parameter, changes, g + at, o.average.numbers + at, p + at, numbers[i]...);
        }
      };
      run(std::make_index_sequence<kStates>());
      state = 0;
      ((states.write(at, count, numbers[state], words.states(), static_cast<int>(16 * state)), ++state), ...);
    }
    if (o.tiles != nullptr) o.tiles[begin / kElementTile] = changes.total();
  });
}

template <class F, bool... kSigned>
HWY_INLINE void update_coded(const Operands& o, F f, CodedState<kSigned>... states) {
  o.with_widths([&](auto* g, auto* p) HWY_ATTR { update_blocks(o, f, g, p, states...); });
}

template <class F>
HWY_INLINE void update_one_state(const Operands& o, F f, const StateNumbers& state) {
  if (state.coded()) return update_coded(o, f, CodedState<true>(state));
  with_f32_or_bf16(state.type, [&]<class S>(S) HWY_ATTR { update_all(o, f, state.as<S>()); });
}

void adamw(std::int64_t n, StateNumbers p, StateNumbers m, StateNumbers v, ConstElements g, const AdamWStep& step,
           const Average& average, const StochasticRounding& rounding, Change* tiles) {
  const Taken taken(step.gradient_scale, step.clip_value);
  const float keep = static_cast<float>(1 - step.lr * step.weight_decay);
  const float blend1 = static_cast<float>(1 - step.beta1);
  const float beta2 = static_cast<float>(step.beta2), blend2 = static_cast<float>(1 - step.beta2);
  const float inverse_root = static_cast<float>(1 / std::sqrt(step.bias_correction2)), epsilon = static_cast<float>(step.epsilon);
  const float size = static_cast<float>(step.lr / step.bias_correction1);
  const auto update = [=](Floats gradient, Floats& parameter, Floats& first, Floats& second) HWY_ATTR {
    const Floats d = taken(gradient);
    first = hn::MulAdd(set(blend1), hn::Sub(d, first), first);
    second = hn::MulAdd(set(beta2), second, hn::Mul(hn::Mul(set(blend2), d), d));
    const Floats denominator = hn::MulAdd(hn::Sqrt(second), set(inverse_root), set(epsilon));
    parameter = hn::NegMulAdd(set(size), hn::Div(first, denominator), hn::Mul(parameter, set(keep)));
  };
  const Operands o{n, g, p, average, rounding, tiles};
  if (m.coded()) return update_coded(o, update, CodedState<true>(m), CodedState<false>(v));
  with_f32_or_bf16(m.type, [&]<class S>(S) HWY_ATTR { update_all(o, update, m.as<S>(), v.as<S>()); });
}

void lion(std::int64_t n, StateNumbers p, StateNumbers m, ConstElements g, const LionStep& step, const Average& average,
          const StochasticRounding& rounding, Change* tiles) {
  const Taken taken(step.gradient_scale, step.clip_value);
  const float keep = static_cast<float>(1 - step.lr * step.weight_decay), size = static_cast<float>(step.lr);
  const float blend1 = static_cast<float>(1 - step.beta1), blend2 = static_cast<float>(1 - step.beta2);
  const auto update = [=](Floats gradient, Floats& parameter, Floats& first) HWY_ATTR {
    const Floats d = hn::Sub(taken(gradient), first);
    const Floats direction = hn::MulAdd(set(blend1), d, first);
    // No step if the direction is 0; NaN if it is NaN.
    const Floats move = hn::IfThenZeroElse(hn::Eq(direction, set(0)), hn::CopySign(set(size), direction));
    const Floats next = hn::Sub(hn::Mul(parameter, set(keep)), move);
    parameter = hn::IfThenElse(hn::IsNaN(direction), direction, next);
    first = hn::MulAdd(set(blend2), d, first);
  };
  update_one_state({n, g, p, average, rounding, tiles}, update, m);
}

void sgd(std::int64_t n, StateNumbers p, StateNumbers buffer, ConstElements g, const SgdStep& step, const Average& average,
         const StochasticRounding& rounding, Change* tiles) {
  const Taken taken(step.gradient_scale, step.clip_value);
  const float decay = static_cast<float>(step.weight_decay);
  const float momentum = static_cast<float>(step.momentum), lr = static_cast<float>(step.lr);
  const auto gradient = [=](Floats x, Floats parameter) HWY_ATTR { return hn::MulAdd(set(decay), parameter, taken(x)); };
  const auto plain = [=](Floats x, Floats& parameter)
                         HWY_ATTR { parameter = hn::NegMulAdd(set(lr), gradient(x, parameter), parameter); };
  // A first update must not read the buffer, which may contain NaN.
  const bool first = step.first, nesterov = step.nesterov;
  const auto with_momentum = [=](Floats x, Floats& parameter, Floats& velocity) HWY_ATTR {
    const Floats d = gradient(x, parameter);
    velocity = first ? d : hn::MulAdd(set(momentum), velocity, d);
    const Floats direction = nesterov ? hn::MulAdd(set(momentum), velocity, d) : velocity;
    parameter = hn::NegMulAdd(set(lr), direction, parameter);
  };
  const Operands o{n, g, p, average, rounding, tiles};
  if (buffer.data == nullptr) return update_all(o, plain);
  update_one_state(o, with_momentum, buffer);
}

void accumulate_rounded(std::int64_t n, const float* g, bool add, std::uint16_t* into, const StochasticRounding& rounding) {
  const auto sum = [=](Changes&, Floats gradient, Floats& total) HWY_ATTR { total = add ? hn::Add(total, gradient) : gradient; };
  update_tiles(n, sum, rounding, /*tiles=*/nullptr, g, into);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(adamw);
HWY_EXPORT(lion);
HWY_EXPORT(sgd);
HWY_EXPORT(accumulate_rounded);

void adamw(std::int64_t n, StateNumbers p, StateNumbers m, StateNumbers v, ConstElements g, const AdamWStep& step,
           const Average& average, const StochasticRounding& rounding, Change* tiles) {
  HWY_DYNAMIC_DISPATCH(adamw)(n, p, m, v, g, step, average, rounding, tiles);
}

void lion(std::int64_t n, StateNumbers p, StateNumbers m, ConstElements g, const LionStep& step, const Average& average,
          const StochasticRounding& rounding, Change* tiles) {
  HWY_DYNAMIC_DISPATCH(lion)(n, p, m, g, step, average, rounding, tiles);
}

void sgd(std::int64_t n, StateNumbers p, StateNumbers buffer, ConstElements g, const SgdStep& step, const Average& average,
         const StochasticRounding& rounding, Change* tiles) {
  HWY_DYNAMIC_DISPATCH(sgd)(n, p, buffer, g, step, average, rounding, tiles);
}

void accumulate_rounded(std::int64_t n, const float* g, bool add, std::uint16_t* into, const StochasticRounding& rounding) {
  HWY_DYNAMIC_DISPATCH(accumulate_rounded)(n, g, add, into, rounding);
}

Bytes change_scratch(std::int64_t n) { return Bytes{ceil_div(n, kElementTile) * static_cast<std::int64_t>(sizeof(Change))}; }

Change sum_of(const Change* tiles, std::int64_t n, Change before) {
  for (std::int64_t i = 0; i < ceil_div(n, kElementTile); ++i) {
    before.before += tiles[i].before;
    before.step += tiles[i].step;
  }
  return before;
}

double clip_coefficient(double norm, double limit) {
  if (!std::isfinite(norm)) return std::numeric_limits<double>::quiet_NaN();
  if (limit == 0) return 1;
  const double coefficient = limit / (norm + 1e-6);
  return coefficient > 1 ? 1 : coefficient;
}

}  // namespace plimsoll::cpu
#endif
