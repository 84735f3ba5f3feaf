// Vectors of fp32 as the kernels of all families use them, and the last part of a row that does not fill a vector. Included once
// for each Highway target.
#if defined(PLIMSOLL_DEVICE_CPU_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DEVICE_CPU_FLOATS_INL_H_
#undef PLIMSOLL_DEVICE_CPU_FLOATS_INL_H_
#else
#define PLIMSOLL_DEVICE_CPU_FLOATS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using Floats = hn::Vec<F32>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(F32()));

// Fetches what lies 4 KiB past p, for a loop over long arrays: hardware alone has too few lines under way to hide the loop's
// arithmetic. One call for each 64 bytes.
HWY_INLINE void fetch_ahead(const float* p) { hwy::Prefetch(p + 1024); }

// The first `count` lanes from p, the others `fill`; nothing past p[count] is read.
HWY_INLINE Floats load_part(const float* p, std::int64_t count, float fill = 0) {
  alignas(64) float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, fill);
  std::memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(float));
  return hn::Load(F32(), lanes);
}

HWY_INLINE void store_part(Floats v, float* p, std::int64_t count) {
  alignas(64) float lanes[kLanes];
  hn::Store(v, F32(), lanes);
  std::memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(float));
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_DEVICE_CPU_FLOATS_INL_H_
