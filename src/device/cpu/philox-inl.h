// philox4x32 for a vector of counters at a time. The bits are those of base/philox.h. Included once for each Highway target.
#if defined(PLIMSOLL_DEVICE_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DEVICE_CPU_PHILOX_INL_H_
#undef PLIMSOLL_DEVICE_CPU_PHILOX_INL_H_
#else
#define PLIMSOLL_DEVICE_CPU_PHILOX_INL_H_
#endif

#include <cstdint>

#include "base/philox.h"
#include "device/cpu/philox_stream.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::Vec<hn::ScalableTag<std::uint32_t>>;

#if HWY_TARGET == HWY_SCALAR

// Calls take(words, i) with vectors of the words of elements 4 * group + i, in order, until those of `groups` groups are through,
// rounded up to a multiple of 8.
template <class Take>
HWY_INLINE void for_philox_words(const PhiloxStream& stream, std::uint64_t group, int groups, Take take) {
  for (int g = 0; g < groups; ++g, ++group) {
    const PhiloxWords words = philox4x32(
        stream.key, {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), stream.third, stream.fourth});
    for (int i = 0; i < 4; ++i) take(hn::Set(hn::ScalableTag<std::uint32_t>(), words[static_cast<std::size_t>(i)]), 4 * g + i);
  }
}

#else

// Counters are in 64-bit lanes. Multiplications read the lower halves only, so the content of the upper halves has no effect.
template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE V64 multiply_lower_halves(D64, V64 a, V64 b) {
  const hn::Repartition<std::uint32_t, D64> d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
}

// Calls take(words, i) with vectors of the words of elements 4 * group + i, in order, until those of `groups` groups are through,
// rounded up to a multiple of 8.
template <class Take>
HWY_INLINE void for_philox_words(const PhiloxStream& stream, std::uint64_t group, int groups, Take take) {
  const hn::ScalableTag<std::uint64_t> d64;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  constexpr int kCounters = static_cast<int>(hn::MaxLanes(d64));
  // Lane order such that interleaving the lanes of each 128-bit block leaves the words in the order of the elements.
  alignas(64) std::uint64_t order[kCounters];
  for (int i = 0; i < kCounters; ++i) order[i] = static_cast<std::uint64_t>((i % 2) * (kCounters / 2) + i / 2);
  const auto lane = hn::Load(d64, order);
  const auto multiplier_a = hn::Set(d64, std::uint64_t{0xD2511F53}), multiplier_b = hn::Set(d64, std::uint64_t{0xCD9E8D57});
  for (int g = 0; g < groups; g += kCounters) {
    auto c0 = hn::Add(hn::Set(d64, group + static_cast<std::uint64_t>(g)), lane);
    auto c1 = hn::ShiftRight<32>(c0);
    auto c2 = hn::Set(d64, std::uint64_t{stream.third});
    auto c3 = hn::Set(d64, std::uint64_t{stream.fourth});
    HWY_UNROLL(10)
    for (const auto& key : stream.round_keys) {
      const auto a = multiply_lower_halves(d64, c0, multiplier_a), b = multiply_lower_halves(d64, c2, multiplier_b);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c1), hn::Set(d64, key[0]));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c3), hn::Set(d64, key[1]));
      c1 = b;
      c3 = a;
    }
    const auto words01 = hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(c1)), hn::BitCast(d32, c0));
    const auto words23 = hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(c3)), hn::BitCast(d32, c2));
    const auto lower = hn::InterleaveLower(d64, hn::BitCast(d64, words01), hn::BitCast(d64, words23));
    const auto upper = hn::InterleaveUpper(d64, hn::BitCast(d64, words01), hn::BitCast(d64, words23));
    take(hn::BitCast(d32, lower), 4 * g);
    take(hn::BitCast(d32, upper), 4 * g + 2 * kCounters);
  }
}

#endif

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_DEVICE_CPU_PHILOX_INL_H_
