// The scaling and limiting of gradients for an update. Included once for each Highway target.
#if defined(PLIMSOLL_OPS_UPDATE_TAKEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_UPDATE_TAKEN_INL_H_
#undef PLIMSOLL_OPS_UPDATE_TAKEN_INL_H_
#else
#define PLIMSOLL_OPS_UPDATE_TAKEN_INL_H_
#endif

#include <limits>

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// Scales an element, then limits it to [-clip_value, clip_value]; 0: no limit. NaN stays NaN.
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

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_UPDATE_TAKEN_INL_H_
