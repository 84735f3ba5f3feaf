// Sums in fp64 over a flat range. Included once for each Highway target.
#if defined(PLIMSOLL_OPS_REDUCE_SUM_RANGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_REDUCE_SUM_RANGE_INL_H_
#undef PLIMSOLL_OPS_REDUCE_SUM_RANGE_INL_H_
#else
#define PLIMSOLL_OPS_REDUCE_SUM_RANGE_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// On every instruction set, element i is added to running sum i % 32, and the 32 sums are then added in pairs. Products of two
// fp32 numbers are exact in fp64.
inline constexpr std::int64_t kRunning = 32;

struct Plain {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return x;
  }
};
struct Squared {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return hn::Mul(x, x);
  }
};

// The sum of map(x[i]) over a range of fp32, or of bf16, which is widened block by block.
template <class T, class Map>
HWY_INLINE double sum_range(std::int64_t begin, std::int64_t end, const T* x, Map map) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  constexpr std::int64_t kWidth = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<double>())),
                         kVectors = kRunning / kWidth;
  hn::Vec<decltype(d)> sums[kVectors];
  for (std::int64_t k = 0; k < kVectors; ++k) sums[k] = hn::Zero(d);
  const auto add_block = [&](const T* from) HWY_ATTR {
    const float* block = nullptr;
    alignas(64) float wide[kRunning];
    if constexpr (std::is_same_v<T, float>) {
      block = from;
    } else {
      static_assert(kRunning % kLanes == 0);
      for (std::int64_t k = 0; k < kRunning; k += kLanes) store(load(from + k), wide + k);
      block = wide;
    }
    HWY_UNROLL(32)
    for (std::int64_t k = 0; k < kVectors; ++k) {
      sums[k] = hn::Add(sums[k], map(hn::PromoteTo(d, hn::LoadU(half, block + k * kWidth))));
    }
  };
  std::int64_t i = begin;
  for (; i + kRunning <= end; i += kRunning) {
    fetch_ahead(x + i);
    fetch_ahead(x + i + kRunning / 2);
    add_block(x + i);
  }
  if (i < end) {
    alignas(64) T rest[kRunning] = {};
    std::memcpy(rest, x + i, static_cast<std::size_t>(end - i) * sizeof(T));
    add_block(rest);
  }
  alignas(64) double lanes[kRunning];
  for (std::int64_t k = 0; k < kVectors; ++k) hn::Store(sums[k], d, lanes + k * kWidth);
  for (std::int64_t width = kRunning / 2; width > 0; width /= 2) {
    for (std::int64_t k = 0; k < width; ++k) lanes[k] += lanes[k + width];
  }
  return lanes[0];
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_REDUCE_SUM_RANGE_INL_H_
