#include "ops/update/kernels.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/update/kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// Runs f(g, states...) on vectors of a gradient and of the states, which it updates in place. By value, so that what f captures
// can stay in registers although the loop writes floats.
template <class F, class... State>
HWY_INLINE void update_range(std::int64_t begin, std::int64_t end, F f, const float* g, State*... states) {
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    fetch_ahead(g + i);
    (fetch_ahead(states + i), ...);
    [&](auto... v) HWY_ATTR {
      f(hn::LoadU(F32(), g + i), v...);
      (hn::StoreU(v, F32(), states + i), ...);
    }(hn::LoadU(F32(), states + i)...);
  }
  if (i == end) return;
  [&](auto... v) HWY_ATTR {
    f(load_part(g + i, end - i), v...);
    (store_part(v, states + i, end - i), ...);
  }(load_part(states + i, end - i)...);
}

template <class F, class... State>
HWY_INLINE void update_tiles(std::int64_t n, F f, const float* g, State*... states) {
  for_tiles(n, [=](std::int64_t begin, std::int64_t end) HWY_ATTR { update_range(begin, end, f, g, states...); });
}

template <class F, class... State>
HWY_INLINE void update_all(std::int64_t n, F f, const Average& average, const float* g, float* p, State*... states) {
  if (average.numbers == nullptr) return update_tiles(n, f, g, p, states...);
  const float blend = static_cast<float>(average.blend);
  const bool first = average.first;
  const auto with_average = [=](Floats gradient, Floats& follows, Floats& parameter, auto&... rest) HWY_ATTR {
    f(gradient, parameter, rest...);
    follows = first ? parameter : hn::MulAdd(set(blend), hn::Sub(parameter, follows), follows);
  };
  update_tiles(n, with_average, g, average.numbers, p, states...);
}

// A gradient as an update takes it: scaled, and then no element beyond the limit. NaN stays NaN.
class Taken {
 public:
  Taken(double gradient_scale, double clip_value)
      : scale_(static_cast<float>(gradient_scale)),
        most_(clip_value == 0 ? std::numeric_limits<float>::infinity() : static_cast<float>(clip_value)) {}
  HWY_INLINE Floats operator()(Floats g) const {
    const Floats scaled = hn::Mul(g, set(scale_));
    return hn::IfThenElse(hn::IsNaN(scaled), scaled, hn::Max(hn::Min(scaled, set(most_)), set(-most_)));
  }

 private:
  float scale_, most_;
};

void adamw(std::int64_t n, float* p, float* m, float* v, const float* g, const AdamWStep& step, const Average& average) {
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
  update_all(n, update, average, g, p, m, v);
}

void lion(std::int64_t n, float* p, float* m, const float* g, const LionStep& step, const Average& average) {
  const Taken taken(step.gradient_scale, step.clip_value);
  const float keep = static_cast<float>(1 - step.lr * step.weight_decay), size = static_cast<float>(step.lr);
  const float blend1 = static_cast<float>(1 - step.beta1), blend2 = static_cast<float>(1 - step.beta2);
  const auto update = [=](Floats gradient, Floats& parameter, Floats& first) HWY_ATTR {
    const Floats d = hn::Sub(taken(gradient), first);
    const Floats direction = hn::MulAdd(set(blend1), d, first);
    // No step where the direction is 0; NaN where it is NaN.
    const Floats move = hn::IfThenZeroElse(hn::Eq(direction, set(0)), hn::CopySign(set(size), direction));
    const Floats next = hn::Sub(hn::Mul(parameter, set(keep)), move);
    parameter = hn::IfThenElse(hn::IsNaN(direction), direction, next);
    first = hn::MulAdd(set(blend2), d, first);
  };
  update_all(n, update, average, g, p, m);
}

void sgd(std::int64_t n, float* p, float* buffer, const float* g, const SgdStep& step, const Average& average) {
  const Taken taken(step.gradient_scale, step.clip_value);
  const float decay = static_cast<float>(step.weight_decay);
  const float momentum = static_cast<float>(step.momentum), lr = static_cast<float>(step.lr);
  const auto gradient = [=](Floats x, Floats parameter) HWY_ATTR { return hn::MulAdd(set(decay), parameter, taken(x)); };
  const auto plain = [=](Floats x, Floats& parameter)
                         HWY_ATTR { parameter = hn::NegMulAdd(set(lr), gradient(x, parameter), parameter); };
  // A first update must not read what the buffer held before, which may be NaN.
  const bool first = step.first, nesterov = step.nesterov;
  const auto with_momentum = [=](Floats x, Floats& parameter, Floats& velocity) HWY_ATTR {
    const Floats d = gradient(x, parameter);
    velocity = first ? d : hn::MulAdd(set(momentum), velocity, d);
    const Floats direction = nesterov ? hn::MulAdd(set(momentum), velocity, d) : velocity;
    parameter = hn::NegMulAdd(set(lr), direction, parameter);
  };
  if (buffer == nullptr) {
    update_all(n, plain, average, g, p);
  } else {
    update_all(n, with_momentum, average, g, p, buffer);
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(adamw);
HWY_EXPORT(lion);
HWY_EXPORT(sgd);

void adamw(std::int64_t n, float* p, float* m, float* v, const float* g, const AdamWStep& step, const Average& average) {
  HWY_DYNAMIC_DISPATCH(adamw)(n, p, m, v, g, step, average);
}

void lion(std::int64_t n, float* p, float* m, const float* g, const LionStep& step, const Average& average) {
  HWY_DYNAMIC_DISPATCH(lion)(n, p, m, g, step, average);
}

void sgd(std::int64_t n, float* p, float* buffer, const float* g, const SgdStep& step, const Average& average) {
  HWY_DYNAMIC_DISPATCH(sgd)(n, p, buffer, g, step, average);
}

double clip_coefficient(double norm, double limit) {
  if (limit == 0) return 1;
  const double coefficient = limit / (norm + 1e-6);
  return coefficient > 1 ? 1 : coefficient;
}

}  // namespace plimsoll::cpu
#endif
