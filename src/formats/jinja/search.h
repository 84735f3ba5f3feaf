// The place of one text in another, in linear time for any texts.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace plimsoll::jinja {

// The first one at `from` or behind it; npos where there is none.
inline std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t from = 0) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace plimsoll::jinja
