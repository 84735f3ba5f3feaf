// The largest number of a row, for softmax and cross-entropy; NaN may be lost. Included once for each Highway target (hence
// no #pragma once).
#include <cstdint>
#include <limits>

#if defined(PLIMSOLL_OPS_SOFTMAX_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_SOFTMAX_ROW_INL_H_
#undef PLIMSOLL_OPS_SOFTMAX_ROW_INL_H_
#else
#define PLIMSOLL_OPS_SOFTMAX_ROW_INL_H_
#endif

#include "device/cpu/floats-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

HWY_INLINE float row_maximum(std::int64_t count, const float* x) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  Floats best = hn::Set(F32(), kLowest);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) best = hn::Max(best, hn::LoadU(F32(), x + i));
  if (i < count) best = hn::Max(best, load_part(x + i, count - i, kLowest));
  return hn::GetLane(hn::MaxOfLanes(F32(), best));
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_SOFTMAX_ROW_INL_H_
