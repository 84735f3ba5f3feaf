// exp for vectors of fp32, shared by softmax, attention and activations: within 1.5 ulp, results below FLT_MIN are zero, NaN
// stays NaN. For x <= 88. Included once for each Highway target (hence no #pragma once).
#if defined(PLIMSOLL_OPS_SOFTMAX_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_SOFTMAX_EXP_INL_H_
#undef PLIMSOLL_OPS_SOFTMAX_EXP_INL_H_
#else
#define PLIMSOLL_OPS_SOFTMAX_EXP_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// 2^n * p(r) with x = n ln2 + r, |r| <= ln2 / 2; ln2 in two parts (Cody and Waite), p as in Cephes' expf.
template <class D, class V = hwy::HWY_NAMESPACE::Vec<D>>
HWY_INLINE V exp_fp32(D d, V x) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Rebind<std::int32_t, D> di;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it, with the exponent's bias, in the low bits.
  const V magic = hn::Set(d, 12582912.0f + 127.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504088896341f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::MulAdd(n, hn::Set(d, -0.693359375f), x);
  r = hn::MulAdd(n, hn::Set(d, 2.12194440e-4f), r);
  V p = hn::MulAdd(r, hn::Set(d, 1.9875691500e-4f), hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3365448f)), hn::Mul(p, power));
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_SOFTMAX_EXP_INL_H_
