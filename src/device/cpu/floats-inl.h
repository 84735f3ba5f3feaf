// Vectors of fp32 for the kernels of all op families, with loads and stores of partial vectors at the end of a row. Included once
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

// Prefetches the line 4 KiB past p, for loops over long arrays: hardware alone fetches too few lines ahead to hide the loop's
// arithmetic. Called once for each 64 bytes.
HWY_INLINE void fetch_ahead(const float* p) { hwy::Prefetch(p + 1024); }

// Loads p[0, count) into the first lanes and `fill` into the others.
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
