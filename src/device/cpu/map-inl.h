// out[i] = f(in[i]...) over vectors of fp32 from and to memory of fp32, bf16 or fp16; `out` may equal any input of its width. The
// last, partial vector goes through a buffer on the stack, so nothing outside [begin, end) is read or written. Included once for
// each Highway target.
#if defined(PLIMSOLL_DEVICE_CPU_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DEVICE_CPU_MAP_INL_H_
#undef PLIMSOLL_DEVICE_CPU_MAP_INL_H_
#else
#define PLIMSOLL_DEVICE_CPU_MAP_INL_H_
#endif

#include <cstdint>

#include "device/cpu/narrow-inl.h"
#include "device/cpu/tiles.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

HWY_INLINE Floats set(float x) { return hn::Set(F32(), x); }

// The amount of arithmetic per element. With little, the hardware's prefetch is early enough.
enum class Work { little, much };

template <Work kWork = Work::little, class F, class Out, class... In>
HWY_INLINE void map_range(std::int64_t begin, std::int64_t end, F f, Out* out, const In*... in) {
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    if constexpr (kWork == Work::much) (fetch_ahead(in + i), ...);
    store(f(load(in + i)...), out + i);
  }
  if (i < end) store_part(f(load_part(in + i, end - i)...), out + i, end - i);
}

// The same over [0, n), with all threads.
template <Work kWork = Work::little, class F, class Out, class... In>
HWY_INLINE void map_all(std::int64_t n, F f, Out* out, const In*... in) {
  for_tiles(n, [&](std::int64_t begin, std::int64_t end) HWY_ATTR { map_range<kWork>(begin, end, f, out, in...); });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_DEVICE_CPU_MAP_INL_H_
