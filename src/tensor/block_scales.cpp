#include "tensor/block_scales.h"

namespace plimsoll {
namespace {

// The offset and number of a block's consecutive scales.
struct Scales {
  std::int64_t at = 0, count = 0;
};

Scales scales_of(BlockFormat format) {
  switch (format) {
    case BlockFormat::int8:
    case BlockFormat::nf4:
    case BlockFormat::nf4_nested: return {};  // after all codes
    case BlockFormat::q4_0:
    case BlockFormat::q5_0:
    case BlockFormat::q8_0: return {0, 1};
    case BlockFormat::q4_1:
    case BlockFormat::q5_1:
    case BlockFormat::q4_k:
    case BlockFormat::q5_k: return {0, 2};
    case BlockFormat::q6_k: return {208, 1};
  }
  return {};
}

}  // namespace

// The high byte holds all bits of the exponent.
std::optional<std::int64_t> first_bad_scale(BlockFormat format, std::int64_t begin, std::span<const std::byte> bytes) {
  constexpr auto kExponent = std::byte{0x7c};
  const Scales scales = scales_of(format);
  if (scales.count == 0) return {};
  const std::int64_t size = stored_bytes({format, 1, block_elements(format)}).n, end = begin + std::ssize(bytes);
  for (std::int64_t block = begin / size; block * size < end; ++block) {
    for (std::int64_t i = 0; i < scales.count; ++i) {
      const std::int64_t high = block * size + scales.at + 2 * i + 1;
      if (high < begin || high >= end) continue;
      if ((bytes[static_cast<std::size_t>(high - begin)] & kExponent) == kExponent) return block;
    }
  }
  return {};
}

}  // namespace plimsoll
