// The formats of training data, as data.format names them.
#pragma once

#include <array>
#include <string_view>

namespace plimsoll {

// "auto" chooses a format of a token stream; "chat" has samples of varying length.
inline constexpr std::array<std::string_view, 7> kDataFormats{"auto", "bytes", "u16", "u32", "llmc", "bpe", "chat"};

}  // namespace plimsoll
