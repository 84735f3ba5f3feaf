#include "ops/dropout/kernels.h"

#include "ops/attention/mask_stream.h"
#include "ops/elementwise/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dropout/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/attention/dropout_mask-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// Elements whose factors are made at a time, few enough for the first-level cache.
inline constexpr std::int64_t kMaskPiece = 1024;
inline constexpr std::int64_t kMaskOverrun = 64;  // factors come in groups of up to 32, and the first group may begin before

void dropout(std::int64_t rows, std::int64_t elements, const DropoutNoise& noise, const float* x, float* y) {
  const AttentionDropout rule{noise.probability, noise.key, nullptr};
  for_row_tiles(rows, elements, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    MaskStream stream(rule);
    const std::uint32_t* ids = noise.sample_ids + (noise.tokens ? 3 : 2) * row;
    stream.take(ids[0], ids[1]);
    const std::uint64_t first = noise.tokens ? ids[2] * static_cast<std::uint64_t>(elements) : 0;
    alignas(64) float buffer[kMaskPiece + kMaskOverrun];
    for (std::int64_t i = begin; i < end; i += kMaskPiece) {
      const std::int64_t count = HWY_MIN(kMaskPiece, end - i), at = row * elements + i;
      const float* factors = fill_mask(stream, first + static_cast<std::uint64_t>(i), static_cast<int>(count), buffer);
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

void dropout(std::int64_t rows, std::int64_t elements, const DropoutNoise& noise, const float* x, float* y) {
  if (noise.probability == 0) return scale(rows * elements, x, 1, y);
  HWY_DYNAMIC_DISPATCH(dropout)(rows, elements, noise, x, y);
}

}  // namespace plimsoll::cpu
#endif
