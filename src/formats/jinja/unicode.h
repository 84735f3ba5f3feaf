// Classes of characters, as in Python's str.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::jinja {

// str.isspace()
bool is_space(char32_t character);
// True if repr() does not escape the character.
bool is_printable(char32_t character);
bool is_letter(char32_t character);
bool is_cased(char32_t character);
bool is_upper(char32_t character);
bool is_lower(char32_t character);
bool is_digit(char32_t character);  // Nd, and digits in circles or other forms

// The full mapping, in which one character may become several.
std::string upper(std::string_view text);
// Bytes [begin, end) of a text in lower case. The characters around them affect the result.
std::string lower(std::string_view text, std::size_t begin, std::size_t end);
inline std::string lower(std::string_view text) { return lower(text, 0, text.size()); }
// The first character in title case, the others like lower().
std::string capitalize(std::string_view text);

// The begin and the end of the text without white space at its sides: the first other byte at `from` or after it, and the end of
// the last one.
std::size_t space_end(std::string_view text, std::size_t from);
std::size_t space_begin(std::string_view text, std::size_t end, std::size_t least);

// The first byte of character `index`; the size if there are fewer characters.
std::size_t byte_of(std::string_view text, std::size_t index);

}  // namespace plimsoll::jinja
