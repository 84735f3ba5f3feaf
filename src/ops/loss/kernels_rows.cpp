#include "ops/loss/kernels_rows.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/loss/kernels_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr D kTag{};

inline std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(kTag)); }

// The last, partial vector of a row, filled up with `fill`.
inline V load_tail(const float* from, std::int64_t count, float fill) {
  alignas(64) float lane[16];
  std::fill(std::copy_n(from, count, lane), lane + 16, fill);
  return hn::Load(kTag, lane);
}

inline void store_tail(V value, float* to, std::int64_t count) {
  alignas(64) float lane[16];
  hn::Store(value, kTag, lane);
  std::copy_n(lane, count, to);
}

inline float max_of(const float* x, std::int64_t count) {
  const std::int64_t n = lanes();
  const auto lowest = hn::Set(kTag, -std::numeric_limits<float>::infinity());
  auto max0 = lowest, max1 = lowest;
  std::int64_t i = 0;
  for (; i + 2 * n <= count; i += 2 * n) {
    max0 = hn::Max(max0, hn::LoadU(kTag, x + i));
    max1 = hn::Max(max1, hn::LoadU(kTag, x + i + n));
  }
  for (; i + n <= count; i += n) max0 = hn::Max(max0, hn::LoadU(kTag, x + i));
  if (i < count) max1 = hn::Max(max1, load_tail(x + i, count - i, -std::numeric_limits<float>::infinity()));
  return hn::GetLane(hn::MaxOfLanes(kTag, hn::Max(max0, max1)));
}

inline float sum_of_exponentials(const float* x, std::int64_t count, float max) {
  const std::int64_t n = lanes();
  const auto top = hn::Set(kTag, max);
  auto sum0 = hn::Zero(kTag), sum1 = sum0;
  std::int64_t i = 0;
  for (; i + 2 * n <= count; i += 2 * n) {
    sum0 = hn::Add(sum0, hn::Exp(kTag, hn::Sub(hn::LoadU(kTag, x + i), top)));
    sum1 = hn::Add(sum1, hn::Exp(kTag, hn::Sub(hn::LoadU(kTag, x + i + n), top)));
  }
  for (; i + n <= count; i += n) sum0 = hn::Add(sum0, hn::Exp(kTag, hn::Sub(hn::LoadU(kTag, x + i), top)));
  if (i < count) {
    const auto tail = load_tail(x + i, count - i, -std::numeric_limits<float>::infinity());
    sum1 = hn::Add(sum1, hn::Exp(kTag, hn::Sub(tail, top)));
  }
  return hn::GetLane(hn::SumOfLanes(kTag, hn::Add(sum0, sum1)));
}

void add_logits(const float* logits, std::int64_t columns, SoftmaxState& state) {
  const float max = std::max(state.max, max_of(logits, columns));
  state.sum = state.sum * std::exp(state.max - max) + sum_of_exponentials(logits, columns, max);
  state.max = max;
}

void scale_softmax(float* logits, std::int64_t columns, float max, float scale) {
  const std::int64_t n = lanes();
  const auto top = hn::Set(kTag, max), factor = hn::Set(kTag, scale);
  std::int64_t i = 0;
  for (; i + n <= columns; i += n) {
    hn::StoreU(hn::Mul(hn::Exp(kTag, hn::Sub(hn::LoadU(kTag, logits + i), top)), factor), kTag, logits + i);
  }
  if (i < columns) {
    const auto tail = load_tail(logits + i, columns - i, max);
    store_tail(hn::Mul(hn::Exp(kTag, hn::Sub(tail, top)), factor), logits + i, columns - i);
  }
}

float dot(const float* a, const float* b, std::int64_t count) {
  const std::int64_t n = lanes();
  auto sum0 = hn::Zero(kTag), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  std::int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    sum0 = hn::MulAdd(hn::LoadU(kTag, a + i), hn::LoadU(kTag, b + i), sum0);
    sum1 = hn::MulAdd(hn::LoadU(kTag, a + i + n), hn::LoadU(kTag, b + i + n), sum1);
    sum2 = hn::MulAdd(hn::LoadU(kTag, a + i + 2 * n), hn::LoadU(kTag, b + i + 2 * n), sum2);
    sum3 = hn::MulAdd(hn::LoadU(kTag, a + i + 3 * n), hn::LoadU(kTag, b + i + 3 * n), sum3);
  }
  for (; i + n <= count; i += n) sum0 = hn::MulAdd(hn::LoadU(kTag, a + i), hn::LoadU(kTag, b + i), sum0);
  if (i < count) sum1 = hn::MulAdd(load_tail(a + i, count - i, 0.0F), load_tail(b + i, count - i, 0.0F), sum1);
  return hn::GetLane(hn::SumOfLanes(kTag, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(add_logits);
HWY_EXPORT(scale_softmax);
HWY_EXPORT(dot);

void add_logits(const float* logits, std::int64_t columns, SoftmaxState& state) {
  HWY_DYNAMIC_DISPATCH(add_logits)(logits, columns, state);
}

void scale_softmax(float* logits, std::int64_t columns, float max, float scale) {
  HWY_DYNAMIC_DISPATCH(scale_softmax)(logits, columns, max, scale);
}

float dot(const float* a, const float* b, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(dot)(a, b, count); }

}  // namespace plimsoll::cpu
#endif
