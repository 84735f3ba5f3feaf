#include "ops/cast/kernels.h"

#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cast/kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// Whole vectors by `vector(in, out)`, the rest by `one`: both compute the same bits.
template <class From, class To, class Vector, class One>
HWY_INLINE void cast_all(std::int64_t n, const From* x, To* y, Vector vector, One one) {
  for_tiles(n, [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) vector(x + i, y + i);
    for (; i < end; ++i) y[i] = one(x[i]);
  });
}

void cast_f32_to_bf16(std::int64_t n, const float* x, std::uint16_t* y) {
  map_all(
      n, [](Floats v) HWY_ATTR { return v; }, y, x);
}

void cast_bf16_to_f32(std::int64_t n, const std::uint16_t* x, float* y) {
  map_all(
      n, [](Floats v) HWY_ATTR { return v; }, y, x);
}

#if HWY_TARGET <= HWY_AVX2  // these sets, and better ones, convert in hardware

using F16 = hn::Rebind<hwy::float16_t, F32>;

void cast_f32_to_f16(std::int64_t n, const float* x, std::uint16_t* y) {
  const auto vector = [](const float* in, std::uint16_t* out)
                          HWY_ATTR { hn::StoreU(hn::BitCast(U16(), hn::DemoteTo(F16(), hn::LoadU(F32(), in))), U16(), out); };
  cast_all(n, x, y, vector, narrow_f16);
}

void cast_f16_to_f32(std::int64_t n, const std::uint16_t* x, float* y) {
  const auto vector = [](const std::uint16_t* in, float* out)
                          HWY_ATTR { hn::StoreU(hn::PromoteTo(F32(), hn::BitCast(F16(), hn::LoadU(U16(), in))), F32(), out); };
  cast_all(n, x, y, vector, widen_f16);
}

#else

void cast_f32_to_f16(std::int64_t n, const float* x, std::uint16_t* y) {
  for_tiles(n, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = narrow_f16(x[i]);
  });
}

void cast_f16_to_f32(std::int64_t n, const std::uint16_t* x, float* y) {
  for_tiles(n, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = widen_f16(x[i]);
  });
}

#endif

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(cast_f32_to_bf16);
HWY_EXPORT(cast_bf16_to_f32);
HWY_EXPORT(cast_f32_to_f16);
HWY_EXPORT(cast_f16_to_f32);

void cast_f32_to_bf16(std::int64_t n, const float* x, std::uint16_t* y) { HWY_DYNAMIC_DISPATCH(cast_f32_to_bf16)(n, x, y); }
void cast_bf16_to_f32(std::int64_t n, const std::uint16_t* x, float* y) { HWY_DYNAMIC_DISPATCH(cast_bf16_to_f32)(n, x, y); }
void cast_f32_to_f16(std::int64_t n, const float* x, std::uint16_t* y) { HWY_DYNAMIC_DISPATCH(cast_f32_to_f16)(n, x, y); }
void cast_f16_to_f32(std::int64_t n, const std::uint16_t* x, float* y) { HWY_DYNAMIC_DISPATCH(cast_f16_to_f32)(n, x, y); }

}  // namespace plimsoll::cpu
#endif
