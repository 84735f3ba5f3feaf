#include "ops/cast/kernels.h"

#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cast/kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

void cast_f32_to_bf16(std::int64_t n, const float* x, std::uint16_t* y) {
  map_all(
      n, [](Floats v) HWY_ATTR { return v; }, y, x);
}

void cast_bf16_to_f32(std::int64_t n, const std::uint16_t* x, float* y) {
  map_all(
      n, [](Floats v) HWY_ATTR { return v; }, y, x);
}

void cast_f32_to_f16(std::int64_t n, const float* x, std::uint16_t* y) {
  map_all(
      n, [](Floats v) HWY_ATTR { return v; }, reinterpret_cast<F16*>(y), x);
}

void cast_f16_to_f32(std::int64_t n, const std::uint16_t* x, float* y) {
  map_all(
      n, [](Floats v) HWY_ATTR { return v; }, y, reinterpret_cast<const F16*>(x));
}

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
