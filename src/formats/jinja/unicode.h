// Characters as Python's str sees them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::jinja {

// str.isspace()
bool is_space(char32_t character);
// Characters that repr() leaves as they are.
bool is_printable(char32_t character);
bool is_letter(char32_t character);
bool is_cased(char32_t character);
bool is_upper(char32_t character);
bool is_lower(char32_t character);
bool is_digit(char32_t character);  // Nd, and digits in circles and the like

// The full mappings, by which one character may become several.
std::string upper(std::string_view text);
// The bytes [begin, end) of a text in small letters; the characters around them count.
std::string lower(std::string_view text, std::size_t begin, std::size_t end);
inline std::string lower(std::string_view text) { return lower(text, 0, text.size()); }
// The first character as in a title, the others as lower() has them.
std::string capitalize(std::string_view text);

// The begin and the end of the text without white space at its sides.
std::size_t space_end(std::string_view text, std::size_t from);
std::size_t space_begin(std::string_view text, std::size_t end, std::size_t least);

// The byte at which character `index` begins; the size where there are fewer.
std::size_t byte_of(std::string_view text, std::size_t index);

}  // namespace plimsoll::jinja
