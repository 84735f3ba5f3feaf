// Validation of UTF-8, and replacement of invalid bytes. Surrogates, overlong forms and code points past U+10FFFF are invalid
// (RFC 3629).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// Bytes of the valid code point at the front of `text`: 1 to 4; 0 if it is invalid or the text ends within it.
std::size_t utf8_length(std::string_view text);

// Bytes of the longest valid prefix.
std::size_t utf8_valid_prefix(std::string_view text);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Replaces each maximal invalid part by one U+FFFD.
std::string utf8_repaired(std::string_view bytes);

constexpr bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace plimsoll
