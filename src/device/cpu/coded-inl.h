// Numbers of 8 bits in blocks with a scale each. A number is a small floating-point number, at most 1.875, times the scale.
// Signed codes have four bits of exponent and three of mantissa, unsigned codes five and three. Steps of a power of two: 8.
// Smallest steps: 2^-17 of the scale for signed codes, 2^-33 for unsigned ones. Included once for each Highway target.
#if defined(PLIMSOLL_DEVICE_CPU_CODED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DEVICE_CPU_CODED_INL_H_
#undef PLIMSOLL_DEVICE_CPU_CODED_INL_H_
#else
#define PLIMSOLL_DEVICE_CPU_CODED_INL_H_
#endif

#include <cstdint>

#include "device/cpu/narrow-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using Words = hn::Vec<U32>;
using U8 = hn::Rebind<std::uint8_t, F32>;

template <bool kSigned>
struct Coded {
  static constexpr int kDigits = 3, kExponents = kSigned ? 4 : 5, kShift = 23 - kDigits;
  static constexpr std::uint32_t kMost = (1u << (kDigits + kExponents)) - 1;       // the largest magnitude
  static constexpr std::uint32_t kBias = (127u - ((1u << kExponents) - 1)) << 23;  // the largest exponent is 0
  static constexpr float kLargest = 1.875f;
  // The step of subnormal numbers.
  static constexpr float kStep = kSigned ? 0x1p-17f : 0x1p-33f;

  static HWY_INLINE Floats decode(const std::uint8_t* codes, Floats scale) {
    const Words code = hn::PromoteTo(U32(), hn::LoadU(U8(), codes)), magnitude = hn::And(code, hn::Set(U32(), kMost));
    const Floats large = hn::BitCast(F32(), hn::Add(hn::ShiftLeft<kShift>(magnitude), hn::Set(U32(), kBias)));
    const Floats small = hn::Mul(hn::ConvertTo(F32(), hn::BitCast(I32(), magnitude)), hn::Set(F32(), kStep));
    const auto is_small = hn::Lt(hn::BitCast(I32(), magnitude), hn::Set(I32(), 1 << kDigits));
    const Floats number = hn::Mul(hn::IfThenElse(hn::RebindMask(F32(), is_small), small, large), scale);
    if constexpr (!kSigned) return number;
    return hn::Or(number, hn::BitCast(F32(), hn::ShiftLeft<24>(hn::And(code, hn::Set(U32(), 0x80)))));
  }

  // Rounds at random by the lower 16 bits of the noise. `inverse_scale`: 1 / scale, where no number times it is above kLargest.
  // An unsigned number above 0 never becomes 0, because other numbers are divided by it.
  static HWY_INLINE void encode(Floats number, Floats inverse_scale, Words noise, std::uint8_t* codes) {
    const Words random = hn::And(noise, hn::Set(U32(), 0xffff));
    const Floats scaled = hn::Min(hn::Mul(hn::Abs(number), inverse_scale), hn::Set(F32(), kLargest));
    const Words bits = hn::Sub(hn::BitCast(U32(), scaled), hn::Set(U32(), kBias));
    // The noise has kShift bits: 16 random ones, then the middle of the range of the others.
    const Words added = hn::Or(hn::ShiftLeft<kShift - 16>(random), hn::Set(U32(), 1u << (kShift - 17)));
    const Words large = hn::ShiftRight<kShift>(hn::Add(bits, added));
    const Floats up =
        hn::Mul(hn::Add(hn::ConvertTo(F32(), hn::BitCast(I32(), random)), hn::Set(F32(), 0.5f)), hn::Set(F32(), 0x1p-16f));
    const Words small = hn::BitCast(U32(), hn::ConvertTo(I32(), hn::MulAdd(scaled, hn::Set(F32(), 1 / kStep), up)));
    const auto is_small = hn::Lt(scaled, hn::Set(F32(), kStep * (1 << kDigits)));
    Words magnitude = hn::IfThenElse(hn::RebindMask(U32(), is_small), small, large);
    magnitude = hn::Min(magnitude, hn::Set(U32(), kMost));
    if constexpr (kSigned) {
      const Words sign = hn::ShiftRight<24>(hn::And(hn::BitCast(U32(), number), hn::Set(U32(), 0x80000000u)));
      magnitude = hn::Or(magnitude, sign);
    } else {
      const auto some = hn::RebindMask(U32(), hn::Gt(number, hn::Zero(F32())));
      magnitude = hn::IfThenElse(some, hn::Max(magnitude, hn::Set(U32(), 1)), magnitude);
    }
    hn::StoreU(hn::DemoteTo(U8(), hn::BitCast(I32(), magnitude)), U8(), codes);
  }
};

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_DEVICE_CPU_CODED_INL_H_
