// Rows of the dropout mask. Included once for each Highway target.
#if defined(PLIMSOLL_OPS_ATTENTION_DROPOUT_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_ATTENTION_DROPOUT_MASK_INL_H_
#undef PLIMSOLL_OPS_ATTENTION_DROPOUT_MASK_INL_H_
#else
#define PLIMSOLL_OPS_ATTENTION_DROPOUT_MASK_INL_H_
#endif

#include "device/cpu/philox-inl.h"
#include "hwy/highway.h"
#include "ops/attention/mask_stream.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// Writes the factors of elements [4 * group, 4 * group + 4 * groups), groups rounded up to a multiple of 8.
HWY_INLINE void fill_mask_groups(const MaskStream& stream, std::uint64_t group, int groups, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const auto below = hn::Set(di, static_cast<std::int32_t>(stream.threshold) - 1);
  const auto factor = hn::Set(df, stream.keep_factor);
  // unit_float compares the upper 24 bits.
  for_philox_words(stream.noise, group, groups, [&](Words words, int i) HWY_ATTR {
    const auto keep = hn::Gt(hn::BitCast(di, hn::ShiftRight<8>(words)), below);
    hn::StoreU(hn::IfThenElseZero(hn::RebindMask(df, keep), factor), df, out + i);
  });
}

// Factors (0 or 1 / (1 - p)) of `count` consecutive elements; `buffer` holds count + kMaskSlack floats. Returns their begin.
HWY_NOINLINE inline const float* fill_mask(const MaskStream& stream, std::uint64_t element, int count,
                                           float* HWY_RESTRICT buffer) {
  const int skip = static_cast<int>(element % 4);
  fill_mask_groups(stream, element / 4, (skip + count + 3) / 4, buffer);
  return buffer + skip;
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_ATTENTION_DROPOUT_MASK_INL_H_
