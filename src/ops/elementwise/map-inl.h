// out[i] = f(in[i]...) over vectors of fp32; `out` may equal any input. The last, partial vector goes through a buffer on the
// stack, so nothing outside [begin, end) is read or written. Included once for each Highway target.
#if defined(PLIMSOLL_OPS_ELEMENTWISE_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_ELEMENTWISE_MAP_INL_H_
#undef PLIMSOLL_OPS_ELEMENTWISE_MAP_INL_H_
#else
#define PLIMSOLL_OPS_ELEMENTWISE_MAP_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "ops/elementwise/tiles.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using VecF32 = hn::Vec<F32>;
inline constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(F32()));

HWY_INLINE VecF32 set(float x) { return hn::Set(F32(), x); }

HWY_INLINE VecF32 load_part(const float* p, std::int64_t count) {
  alignas(64) float lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(float));
  return hn::Load(F32(), lanes);
}

HWY_INLINE void store_part(VecF32 v, float* p, std::int64_t count) {
  alignas(64) float lanes[kLanes];
  hn::Store(v, F32(), lanes);
  std::memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(float));
}

template <class F, class... In>
HWY_INLINE void map_range(std::int64_t begin, std::int64_t end, F f, float* out, const In*... in) {
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) hn::StoreU(f(hn::LoadU(F32(), in + i)...), F32(), out + i);
  if (i < end) store_part(f(load_part(in + i, end - i)...), out + i, end - i);
}

// The whole array, on the team.
template <class F, class... In>
HWY_INLINE void map_all(std::int64_t n, F f, float* out, const In*... in) {
  for_tiles(n, [&](std::int64_t begin, std::int64_t end) HWY_ATTR { map_range(begin, end, f, out, in...); });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_ELEMENTWISE_MAP_INL_H_
