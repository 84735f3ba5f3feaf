// How byte-level vocabularies write bytes in their files.
#pragma once

#include <array>
#include <cstdint>

namespace plimsoll {

// GPT-2 writes each byte as one printable character: itself where it is printable in Latin-1, else 256 and up in order.
struct ByteAlphabet {
  std::array<std::uint16_t, 256> character{};
  std::array<std::int16_t, 324> byte{};

  constexpr ByteAlphabet() {
    byte.fill(-1);
    std::uint16_t next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      character[b] = printable ? static_cast<std::uint16_t>(b) : next++;
      byte[character[b]] = static_cast<std::int16_t>(b);
    }
  }
};

}  // namespace plimsoll
