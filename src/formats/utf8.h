// The end of valid UTF-8, and replacements for the rest. Surrogates, overlong forms and code points past U+10FFFF are invalid
// (RFC 3629).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// Bytes of the valid code point at the front of `text`: 1 to 4, or 0 where there is none (or the text ends inside it).
std::size_t utf8_length(std::string_view text);

// Bytes of the longest valid prefix.
std::size_t utf8_valid_prefix(std::string_view text);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Each maximal part that begins no valid character becomes one U+FFFD.
std::string utf8_repaired(std::string_view bytes);

constexpr bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace plimsoll
