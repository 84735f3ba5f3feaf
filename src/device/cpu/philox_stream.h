// A stream of counter-based random words (base/philox.h), four to a group: word element % 4 of philox4x32(key, {element / 4 low,
// element / 4 high, third, fourth}). Kernels draw from it a vector of groups at a time (philox-inl.h).
#pragma once

#include <array>
#include <cstdint>

namespace plimsoll::cpu {

struct PhiloxStream {
  std::array<std::uint32_t, 2> key{};
  std::uint32_t third = 0, fourth = 0;
  std::array<std::array<std::uint64_t, 2>, 10> round_keys{};  // key of each round, in 64-bit lanes

  PhiloxStream() = default;
  PhiloxStream(std::array<std::uint32_t, 2> key, std::uint32_t third, std::uint32_t fourth)
      : key(key), third(third), fourth(fourth) {
    for (std::uint32_t round = 0; round < 10; ++round) {
      round_keys[round] = {std::uint32_t{key[0] + round * 0x9E3779B9u}, std::uint32_t{key[1] + round * 0xBB67AE85u}};
    }
  }
};

}  // namespace plimsoll::cpu
