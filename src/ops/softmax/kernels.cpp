#include "ops/softmax/kernels.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/softmax/exp-inl.h"
#include "ops/softmax/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

void softmax_row(std::int64_t width, const float* x, float* y) {
  const Floats top = hn::Set(F32(), row_maximum(width, x));
  Floats sum = hn::Zero(F32());
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    const Floats p = exp_fp32(F32(), hn::Sub(hn::LoadU(F32(), x + i), top));
    sum = hn::Add(sum, p);
    hn::StoreU(p, F32(), y + i);
  }
  if (i < width) {
    const Floats p = exp_fp32(F32(), hn::Sub(load_part(x + i, width - i, -std::numeric_limits<float>::infinity()), top));
    sum = hn::Add(sum, p);
    store_part(p, y + i, width - i);
  }
  const Floats factor = hn::Set(F32(), 1.0f / hn::GetLane(hn::SumOfLanes(F32(), sum)));
  map_range(
      0, width, [=](Floats p) HWY_ATTR { return hn::Mul(p, factor); }, y, const_cast<const float*>(y));
}

void softmax_gradient_row(std::int64_t width, const float* y, const float* dy, float* dx) {
  Floats sum = hn::Zero(F32());
  for_vectors(width, [&](std::int64_t i, auto vector)
                         HWY_ATTR { sum = hn::MulAdd(load_at(y + i, vector), load_at(dy + i, vector), sum); });
  const Floats dots = hn::Set(F32(), hn::GetLane(hn::SumOfLanes(F32(), sum)));
  map_range(
      0, width, [=](Floats of_y, Floats of_dy) HWY_ATTR { return hn::Mul(of_y, hn::Sub(of_dy, dots)); }, dx, y, dy);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(softmax_row);
HWY_EXPORT(softmax_gradient_row);

}  // namespace

void softmax_forward(std::int64_t rows, std::int64_t width, const float* x, float* y) {
  for_rows(rows, width, [&](std::int64_t r) { HWY_DYNAMIC_DISPATCH(softmax_row)(width, x + r * width, y + r * width); });
}

void softmax_backward(std::int64_t rows, std::int64_t width, const float* y, const float* dy, float* dx) {
  for_rows(rows, width, [&](std::int64_t r) {
    HWY_DYNAMIC_DISPATCH(softmax_gradient_row)(width, y + r * width, dy + r * width, dx + r * width);
  });
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
