#include "ops/squared_error/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/squared_error/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

void half_squares(std::int64_t n, const float* prediction, const float* target, float* out) {
  const auto loss = [](Floats p, Floats t) HWY_ATTR {
    const Floats error = hn::Sub(p, t);
    return hn::Mul(hn::Mul(error, error), set(0.5F));
  };
  map_all(n, loss, out, prediction, target);
}

void scaled_errors(std::int64_t n, const float* prediction, const float* target, float scale, float* out) {
  const auto gradient = [=](Floats p, Floats t) HWY_ATTR { return hn::Mul(hn::Sub(p, t), set(scale)); };
  map_all(n, gradient, out, prediction, target);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(half_squares);
HWY_EXPORT(scaled_errors);

}  // namespace

void squared_error_forward(std::int64_t n, const float* prediction, const float* target, float* out) {
  HWY_DYNAMIC_DISPATCH(half_squares)(n, prediction, target, out);
}

void squared_error_backward(std::int64_t n, const float* prediction, const float* target, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(scaled_errors)(n, prediction, target, scale, out);
}

}  // namespace plimsoll::cpu
#endif
