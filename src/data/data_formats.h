// The formats of training data, as data.format names them.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace plimsoll {

// Formats of a token stream.
inline constexpr std::array<std::string_view, 5> kStreamFormats{"bytes", "u16", "u32", "llmc", "bpe"};

// Formats of arrays of images.
inline constexpr std::array<std::string_view, 3> kImageFormats{"idx", "cifar10", "cifar100"};

// True if files of labels accompany those of images.
constexpr bool has_label_files(std::string_view format) { return format == "idx"; }

// All formats. "auto" chooses one of a token stream; "chat" has samples of varying length.
inline constexpr auto kDataFormats = [] {
  std::array<std::string_view, kStreamFormats.size() + kImageFormats.size() + 2> all{"auto"};
  auto next = std::ranges::copy(kStreamFormats, all.begin() + 1).out;
  *next++ = "chat";
  std::ranges::copy(kImageFormats, next);
  return all;
}();

}  // namespace plimsoll
