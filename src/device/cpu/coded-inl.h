// Numbers of 8 bits in blocks, each with a scale: small floating-point numbers, whose largest is 1.875, times the scale. Signed
// codes have four bits of exponent and three of digits, unsigned ones five and three: down to a 2^17th and a 2^33rd of the
// largest of a block, with 8 steps in each power of two. Included once for each Highway target.
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
  static constexpr std::uint32_t kMost = (1u << (kDigits + kExponents)) - 1;       // of a magnitude
  static constexpr std::uint32_t kBias = (127u - ((1u << kExponents) - 1)) << 23;  // the largest exponent is 0
  static constexpr float kLargest = 1.875f;
  // The step of numbers below the least exponent, which have no leading 1.
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

  // `inverse_scale`: of a scale by which no number is larger than kLargest. Takes 16 bits of the noise, which decide whether what
  // has no place rounds up. An unsigned number that is not 0 never becomes 0: it is what others are divided by.
  static HWY_INLINE void encode(Floats number, Floats inverse_scale, Words noise, std::uint8_t* codes) {
    const Words random = hn::And(noise, hn::Set(U32(), 0xffff));
    const Floats scaled = hn::Min(hn::Mul(hn::Abs(number), inverse_scale), hn::Set(F32(), kLargest));
    const Words bits = hn::Sub(hn::BitCast(U32(), scaled), hn::Set(U32(), kBias));
    // In the middle of what 16 bits leave open.
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
