// The number of a token of a vocabulary.
#pragma once

#include <cstdint>

namespace plimsoll {

using Token = std::uint32_t;

inline constexpr Token kNoToken = 0xFFFFFFFF;

}  // namespace plimsoll
