#include "ops/dropout/kernels.h"

#include "ops/attention/mask_stream.h"
#include "ops/elementwise/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dropout/kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/attention/dropout_mask-inl.h"
#include "ops/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// The factors of this many elements are made at a time: they stay in the first-level cache.
inline constexpr std::int64_t kMaskPiece = 1024;
inline constexpr std::int64_t kMaskOverrun = 64;  // factors come in groups of up to 32

void dropout(std::int64_t batch, std::int64_t elements, const DropoutNoise& noise, const float* x, float* y) {
  const AttentionDropout source{noise.probability, noise.key, noise.sample_ids};
  for_row_tiles(batch, elements, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    static_assert(kElementTile % kMaskPiece == 0 && kMaskPiece % 4 == 0);
    const MaskStream stream(source, row);
    alignas(64) float factors[kMaskPiece + kMaskOverrun];
    for (std::int64_t i = begin; i < end; i += kMaskPiece) {
      const std::int64_t count = HWY_MIN(kMaskPiece, end - i), at = row * elements + i;
      fill_mask_groups(stream, static_cast<std::uint64_t>(i) / 4, static_cast<int>((count + 3) / 4), factors);
      map_range(
          0, count, [](Floats m, Floats v) HWY_ATTR { return hn::Mul(m, v); }, y + at, factors, x + at);
    }
  });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(dropout);

void dropout(std::int64_t batch, std::int64_t elements, const DropoutNoise& noise, const float* x, float* y) {
  if (noise.probability == 0) return scale(batch * elements, x, 1, y);
  HWY_DYNAMIC_DISPATCH(dropout)(batch, elements, noise, x, y);
}

}  // namespace plimsoll::cpu
#endif
