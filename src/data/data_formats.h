// The formats of training data, as data.format names them.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace plimsoll {

// Formats of a token stream.
inline constexpr std::array<std::string_view, 5> kStreamFormats{"bytes", "u16", "u32", "llmc", "bpe"};

// All formats. "auto" chooses one of a token stream; "chat" has samples of varying length.
inline constexpr auto kDataFormats = [] {
  std::array<std::string_view, kStreamFormats.size() + 2> all{"auto"};
  std::ranges::copy(kStreamFormats, all.begin() + 1);
  all.back() = "chat";
  return all;
}();

}  // namespace plimsoll
