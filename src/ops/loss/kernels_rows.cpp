#include "ops/loss/kernels_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/loss/kernels_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "device/cpu/narrow-inl.h"
#include "ops/softmax/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// The largest number of a row. It may lose NaN, which the exponentials keep.
inline float max_of(const float* x, std::int64_t count) {
  const auto lowest = hn::Set(F32(), -std::numeric_limits<float>::infinity());
  auto max0 = lowest, max1 = lowest;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    max0 = hn::Max(max0, hn::LoadU(F32(), x + i));
    max1 = hn::Max(max1, hn::LoadU(F32(), x + i + kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) max0 = hn::Max(max0, hn::LoadU(F32(), x + i));
  if (i < count) max1 = hn::Max(max1, load_part(x + i, count - i, -std::numeric_limits<float>::infinity()));
  return hn::GetLane(hn::MaxOfLanes(F32(), hn::Max(max0, max1)));
}

inline float sum_of_exponentials(const float* x, std::int64_t count, float max) {
  const auto top = hn::Set(F32(), max);
  auto sum0 = hn::Zero(F32()), sum1 = sum0;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    sum0 = hn::Add(sum0, exp_fp32(F32(), hn::Sub(hn::LoadU(F32(), x + i), top)));
    sum1 = hn::Add(sum1, exp_fp32(F32(), hn::Sub(hn::LoadU(F32(), x + i + kLanes), top)));
  }
  for (; i + kLanes <= count; i += kLanes) sum0 = hn::Add(sum0, exp_fp32(F32(), hn::Sub(hn::LoadU(F32(), x + i), top)));
  if (i < count) {
    const auto tail = load_part(x + i, count - i, -std::numeric_limits<float>::infinity());
    sum1 = hn::Add(sum1, exp_fp32(F32(), hn::Sub(tail, top)));
  }
  return hn::GetLane(hn::SumOfLanes(F32(), hn::Add(sum0, sum1)));
}

void add_logits(const float* logits, std::int64_t columns, SoftmaxState& state) {
  const float max = std::max(state.max, max_of(logits, columns));
  state.sum = state.sum * std::exp(state.max - max) + sum_of_exponentials(logits, columns, max);
  state.max = max;
}

float sum_of(const float* logits, std::int64_t columns) {
  auto sum = hn::Zero(F32());
  for_vectors(columns, [&](std::int64_t i, auto vector) HWY_ATTR { sum = hn::Add(sum, load_at(logits + i, vector)); });
  return hn::GetLane(hn::SumOfLanes(F32(), sum));
}

void scale_softmax(float* logits, std::int64_t columns, float max, float scale, float less) {
  const auto top = hn::Set(F32(), max), factor = hn::Set(F32(), scale), off = hn::Set(F32(), less);
  const auto gradient = [=](auto x) HWY_ATTR { return hn::MulSub(exp_fp32(F32(), hn::Sub(x, top)), factor, off); };
  std::int64_t i = 0;
  for (; i + kLanes <= columns; i += kLanes) {
    hn::StoreU(gradient(hn::LoadU(F32(), logits + i)), F32(), logits + i);
  }
  if (i < columns) store_part(gradient(load_part(logits + i, columns - i, max)), logits + i, columns - i);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(add_logits);
HWY_EXPORT(sum_of);
HWY_EXPORT(scale_softmax);

void add_logits(const float* logits, std::int64_t columns, SoftmaxState& state) {
  HWY_DYNAMIC_DISPATCH(add_logits)(logits, columns, state);
}

float sum_of(const float* logits, std::int64_t columns) { return HWY_DYNAMIC_DISPATCH(sum_of)(logits, columns); }

void scale_softmax(float* logits, std::int64_t columns, float max, float scale, float less) {
  HWY_DYNAMIC_DISPATCH(scale_softmax)(logits, columns, max, scale, less);
}

}  // namespace plimsoll::cpu
#endif
