// Characters as tokenizers tell them apart. A tokenizer.json was made by programs whose tables are of several Unicode versions:
// the classes below follow those programs for every code point that Unicode 14 has, not the newest tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

// The code point at text[at], which must be valid UTF-8; `at` goes behind it.
char32_t next_character(std::string_view text, std::size_t& at);
// The one that ends right before `end`; its first byte.
std::size_t character_before(std::string_view text, std::size_t end);
void append_character(std::string& text, char32_t character);
std::size_t count_characters(std::string_view text);

// The end of the characters from `from` on that `is` accepts, and the begin of those before `end`, no further than `least`.
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

// White_Space of Unicode; U+180E is none.
bool is_white_space(char32_t character);
// Nd, Nl, No.
bool is_numeric(char32_t character);
// Punctuation, and the symbols of ASCII.
bool is_punctuation(char32_t character);
// Characters that BERT's clean_text drops next to U+0000 and U+FFFD: controls, formats, private use; not tab and line ends.
bool is_bert_control(char32_t character);
// Blocks that BERT puts spaces around.
bool is_bert_ideograph(char32_t character);
// The marks that BERT's strip_accents removes.
bool is_bert_accent(char32_t character);

// Each character by itself; only U+0130 becomes two.
void append_lowercase(std::string& text, char32_t character);

// The character that stands for a byte in byte-level vocabularies, and back: -1 where there is none.
char32_t byte_character(unsigned char byte);
int byte_of_character(char32_t character);
// All bytes so, and back: nothing where the text has a character that stands for no byte.
std::string in_byte_characters(std::string_view bytes);
std::optional<std::string> from_byte_characters(std::string_view text);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
// O(n log n) in any text. Characters that the tables of tokenizers lack stay as they are.
std::string normalized(NormalForm form, std::string_view text);

}  // namespace plimsoll
