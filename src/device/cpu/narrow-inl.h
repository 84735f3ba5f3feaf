// Loads and stores of fp32 vectors from and to memory of fp32, bf16 or fp16, rounding to nearest even. Included once for each
// Highway target.
#if defined(PLIMSOLL_DEVICE_CPU_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DEVICE_CPU_NARROW_INL_H_
#undef PLIMSOLL_DEVICE_CPU_NARROW_INL_H_
#else
#define PLIMSOLL_DEVICE_CPU_NARROW_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "device/cpu/floats-inl.h"
#include "hwy/highway.h"
#include "tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using U16 = hn::Rebind<std::uint16_t, F32>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;

HWY_INLINE void fetch_ahead(const std::uint16_t* p) { hwy::Prefetch(p + 2048); }
HWY_INLINE void fetch_ahead(const F16* p) { hwy::Prefetch(p + 2048); }

HWY_INLINE Floats load(const float* p) { return hn::LoadU(F32(), p); }
HWY_INLINE Floats load(const std::uint16_t* p) {
  return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), hn::LoadU(U16(), p))));
}

// Stores the upper halves of `added`: the bits of v plus the number that makes them round. NaN stays NaN.
HWY_INLINE void store_upper_halves(Floats v, hn::Vec<U32> added, std::uint16_t* p) {
  const auto quiet = hn::Or(hn::ShiftRight<16>(hn::BitCast(U32(), v)), hn::Set(U32(), 0x40));
  const auto result = hn::IfThenElse(hn::RebindMask(U32(), hn::IsNaN(v)), quiet, hn::ShiftRight<16>(added));
  hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(I32(), result)), U16(), p);
}

HWY_INLINE void store(Floats v, float* p) { hn::StoreU(v, F32(), p); }
HWY_INLINE void store(Floats v, std::uint16_t* p) {
  const auto bits = hn::BitCast(U32(), v), odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(U32(), 1));
  store_upper_halves(v, hn::Add(bits, hn::Add(odd, hn::Set(U32(), 0x7fff))), p);
}

#if HWY_TARGET <= HWY_AVX2  // AVX2 and better sets convert in hardware

using Halves = hn::Rebind<hwy::float16_t, F32>;

HWY_INLINE Floats load(const F16* p) {
  return hn::PromoteTo(F32(), hn::BitCast(Halves(), hn::LoadU(U16(), reinterpret_cast<const std::uint16_t*>(p))));
}
HWY_INLINE void store(Floats v, F16* p) {
  hn::StoreU(hn::BitCast(U16(), hn::DemoteTo(Halves(), v)), U16(), reinterpret_cast<std::uint16_t*>(p));
}

#else

HWY_INLINE Floats load(const F16* p) {
  alignas(64) float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = widen_f16(static_cast<std::uint16_t>(p[i]));
  return hn::Load(F32(), lanes);
}
HWY_INLINE void store(Floats v, F16* p) {
  alignas(64) float lanes[kLanes];
  hn::Store(v, F32(), lanes);
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<F16>(narrow_f16(lanes[i]));
}

#endif

// Like load_part and store_part of floats.
template <class T>
HWY_INLINE Floats load_part(const T* p, std::int64_t count) {
  alignas(64) T lanes[kLanes] = {};
  std::memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(T));
  return load(lanes);
}
template <class T>
HWY_INLINE void store_part(Floats v, T* p, std::int64_t count) {
  alignas(64) T lanes[kLanes];
  store(v, lanes);
  std::memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(T));
}

// The size of a vector of a row: a whole one, or the rest at its end.
struct Whole {};
struct Rest {
  std::int64_t count;
};
template <class T>
HWY_INLINE Floats load_at(const T* p, Whole) {
  return load(p);
}
template <class T>
HWY_INLINE Floats load_at(const T* p, Rest rest) {
  return load_part(p, rest.count);
}
template <class T>
HWY_INLINE void store_at(Floats v, T* p, Whole) {
  store(v, p);
}
template <class T>
HWY_INLINE void store_at(Floats v, T* p, Rest rest) {
  store_part(v, p, rest.count);
}

// Calls f(i, Whole or Rest) for the vectors of a row of `width` elements.
template <class F>
HWY_INLINE void for_vectors(std::int64_t width, F f) {
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) f(i, Whole{});
  if (i < width) f(i, Rest{width - i});
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_DEVICE_CPU_NARROW_INL_H_
