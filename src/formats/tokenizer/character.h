// Classes of characters for tokenizers. A tokenizer.json was made by programs with tables of several Unicode versions. The
// classes below follow those programs for every code point of Unicode 14, not the newest tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

// The code point at text[at], which is valid UTF-8; moves `at` past it.
char32_t next_character(std::string_view text, std::size_t& at);
// The first byte of the character that ends at `end`.
std::size_t character_before(std::string_view text, std::size_t end);
void append_character(std::string& text, char32_t character);
std::size_t count_characters(std::string_view text);

// The end of the run of characters that `is` accepts from `from` on, and the begin of the run before `end`, at least `least`.
template <class Is>
std::size_t run_end(std::string_view text, std::size_t from, Is is) {
  std::size_t end = from;
  for (std::size_t at = from; at < text.size() && is(next_character(text, at));) end = at;
  return end;
}
template <class Is>
std::size_t run_begin(std::string_view text, std::size_t end, std::size_t least, Is is) {
  while (end > least) {
    const std::size_t before = character_before(text, end);
    std::size_t at = before;
    if (!is(next_character(text, at))) break;
    end = before;
  }
  return end;
}

// White_Space of Unicode, without U+180E.
bool is_white_space(char32_t character);
// Nd, Nl, No.
bool is_numeric(char32_t character);
// Punctuation and the symbols of ASCII.
bool is_punctuation(char32_t character);
// Characters that BERT's clean_text drops in addition to U+0000 and U+FFFD: controls, formats, private use, but not tab and line
// ends.
bool is_bert_control(char32_t character);
// Characters of the blocks around which BERT puts spaces.
bool is_bert_ideograph(char32_t character);
// The marks that BERT's strip_accents removes.
bool is_bert_accent(char32_t character);

// Maps each character by itself; only U+0130 becomes two.
void append_lowercase(std::string& text, char32_t character);

// The character of a byte in byte-level vocabularies, and the byte of a character; -1: of none.
char32_t byte_character(unsigned char byte);
int byte_of_character(char32_t character);
// The same for texts; absent if a character stands for no byte.
std::string in_byte_characters(std::string_view bytes);
std::optional<std::string> from_byte_characters(std::string_view text);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
// O(n log n) for any text. Characters that the tables of tokenizers lack stay unchanged.
std::string normalized(NormalForm form, std::string_view text);

}  // namespace plimsoll
