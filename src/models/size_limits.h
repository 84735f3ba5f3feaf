// The largest sizes that a configuration may give.
#pragma once

#include <cstdint>

namespace plimsoll {

inline constexpr std::int64_t kMaxLayers = 1 << 12, kMaxWidth = 1 << 20, kMaxHeads = 1 << 12, kMaxVocab = 1 << 24,
                              kMaxPositions = 1 << 24;

}  // namespace plimsoll
