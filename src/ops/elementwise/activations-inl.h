// Activations and their derivatives on vectors of fp32. Included once for each Highway target.
#if defined(PLIMSOLL_OPS_ELEMENTWISE_ACTIVATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_ELEMENTWISE_ACTIVATIONS_INL_H_
#undef PLIMSOLL_OPS_ELEMENTWISE_ACTIVATIONS_INL_H_
#else
#define PLIMSOLL_OPS_ELEMENTWISE_ACTIVATIONS_INL_H_
#endif

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/softmax/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// A function and its derivative.
struct Curve {
  Floats value, derivative;
};

// With e = exp(-|z|), which never overflows, and r = 1 / (1 + e): sigmoid(z) is r for z >= 0, else e r; its derivative is e r r.
HWY_INLINE Curve sigmoid(Floats z) {
  const Floats e = exp_fp32(F32(), hn::Neg(hn::Abs(z)));
  const Floats r = hn::Div(set(1), hn::Add(set(1), e)), er = hn::Mul(e, r);
  return {hn::IfThenElse(hn::Lt(z, set(0)), er, r), hn::Mul(er, r)};
}

// x sigmoid(x).
HWY_INLINE Curve silu(Floats x) {
  const Curve s = sigmoid(x);
  return {hn::Mul(x, s.value), hn::MulAdd(x, s.derivative, s.value)};
}

inline constexpr float kTwiceRoot = 1.5957691216057308f;  // 2 sqrt(2 / pi)
inline constexpr float kTwiceRootCubic = 1.5957691216057308f * 0.044715f;

// GELU by tanh, x sigmoid(2u): u = sqrt(2/pi) (x + 0.044715 x^3).
HWY_INLINE Curve gelu_tanh(Floats x) {
  const Floats x2 = hn::Mul(x, x);
  const Curve s = sigmoid(hn::Mul(x, hn::MulAdd(x2, set(kTwiceRootCubic), set(kTwiceRoot))));
  const Floats du = hn::MulAdd(x2, set(3 * kTwiceRootCubic), set(kTwiceRoot));
  return {hn::Mul(x, s.value), hn::MulAdd(hn::Mul(x, du), s.derivative, s.value)};
}

// exp(z^2) erfc(z) for z >= 0 as t exp(p(t)), t = 1 / (1 + z / 2): within 1.2e-7 of the result (Press et al., Numerical Recipes).
HWY_INLINE Floats erfc_exponent(Floats t) {
  Floats p = hn::MulAdd(t, set(0.17087277f), set(-0.82215223f));
  p = hn::MulAdd(p, t, set(1.48851587f));
  p = hn::MulAdd(p, t, set(-1.13520398f));
  p = hn::MulAdd(p, t, set(0.27886807f));
  p = hn::MulAdd(p, t, set(-0.18628806f));
  p = hn::MulAdd(p, t, set(0.09678418f));
  p = hn::MulAdd(p, t, set(0.37409196f));
  p = hn::MulAdd(p, t, set(1.00002368f));
  return hn::MulAdd(p, t, set(-1.26551223f));
}

// GELU by the normal distribution, x (1 + erf(x / sqrt 2)) / 2.
HWY_INLINE Curve gelu_erf(Floats x) {
  const Floats half_square = hn::Mul(hn::Mul(x, x), set(-0.5f));
  const Floats z = hn::Mul(hn::Abs(x), set(0.70710678118654752f));
  const Floats t = hn::Div(set(1), hn::MulAdd(z, set(0.5f), set(1)));
  const Floats tail = hn::Mul(hn::Mul(t, set(0.5f)), exp_fp32(F32(), hn::Add(half_square, erfc_exponent(t))));
  const Floats below = hn::IfThenElse(hn::Lt(x, set(0)), tail, hn::Sub(set(1), tail));
  const Floats density = hn::Mul(exp_fp32(F32(), half_square), set(0.39894228040143268f));
  return {hn::Mul(x, below), hn::MulAdd(x, density, below)};
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_ELEMENTWISE_ACTIVATIONS_INL_H_
