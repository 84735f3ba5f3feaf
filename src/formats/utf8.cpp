#include "formats/utf8.h"

#include <cstdint>
#include <cstring>

namespace plimsoll {

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_utf8_continuation(text[i])) return 0;
  }
  const unsigned second = at(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    std::uint64_t eight = 0;
    if (position + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + position, 8);
      if ((eight & 0x8080808080808080) == 0) {
        position += 8;
        continue;
      }
    }
    const std::size_t length = utf8_length(text.substr(position));
    if (length == 0) break;
    position += length;
  }
  return position;
}

std::string utf8_repaired(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t valid = utf8_valid_prefix(bytes);
    out += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    out += kReplacementCharacter;
    // The longest part that could begin a valid character.
    const auto first = static_cast<unsigned char>(bytes[0]);
    std::size_t size = 1;
    const std::size_t most = first >= 0xF0 && first <= 0xF4 ? 3 : first >= 0xE0 && first < 0xF0 ? 2 : 1;
    while (size < most && size < bytes.size()) {
      const auto next = static_cast<unsigned char>(bytes[size]);
      unsigned low = 0x80, high = 0xBF;
      if (size == 1) {
        if (first == 0xE0) low = 0xA0;
        if (first == 0xED) high = 0x9F;
        if (first == 0xF0) low = 0x90;
        if (first == 0xF4) high = 0x8F;
      }
      if (next < low || next > high) break;
      ++size;
    }
    bytes.remove_prefix(size);
  }
  return out;
}

}  // namespace plimsoll
