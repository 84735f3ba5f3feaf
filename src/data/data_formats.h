// The formats of training data, as data.format names them.
#pragma once

#include <array>
#include <string_view>

namespace plimsoll {

// "auto" chooses one of a stream of tokens; "chat" are samples of their own lengths.
inline constexpr std::array<std::string_view, 7> kDataFormats{"auto", "bytes", "u16", "u32", "llmc", "bpe", "chat"};

}  // namespace plimsoll
