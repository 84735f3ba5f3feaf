#define PCRE2_CODE_UNIT_WIDTH 8
#include "formats/bpe.h"

#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "formats/piece_merger.h"
#include "formats/utf8.h"
#include "formats/word_cache.h"

namespace plimsoll {
namespace {

// GPT-2's pattern. PCRE2's \s differs from the White_Space property of the published tokenizers in U+0085 and U+180E, hence the
// list.
#define PLIMSOLL_SPACE R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"
constexpr const char* kPattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" PLIMSOLL_SPACE
                                 R"(\p{L}\p{N}]+|[)" PLIMSOLL_SPACE R"(]+(?![^)" PLIMSOLL_SPACE R"(])|[)" PLIMSOLL_SPACE R"(]+)";
#undef PLIMSOLL_SPACE

// Finds the length of the word at the front of valid UTF-8.
class WordPattern {
 public:
  WordPattern() {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED, &error,
                              &offset, nullptr));
    ensure(code_ != nullptr, "WordPattern", "PCRE2 does not compile the pattern");
    // Where the system forbids generated code, matching falls back to the interpreter by itself.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    match_.reset(pcre2_match_data_create(1, nullptr));
    ensure(match_ != nullptr, "WordPattern", "PCRE2 has no memory for a match");
  }

  std::size_t match(std::string_view text) const {
    const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, PCRE2_NO_UTF_CHECK,
                                  match_.get(), nullptr);
    if (found < 0) throw internal_error("WordPattern", fmt::format("PCRE2 answers {} at a word", found));
    return pcre2_get_ovector_pointer(match_.get())[1];
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

}  // namespace

struct BpeEncoder::State {
  const BpeVocabulary& vocabulary;
  EndOfText end_of_text;
  WordPattern pattern;
  WordCache cache;
  PieceMerger merger;
  std::vector<Token> symbols;

  // The piece that is being encoded, and what is known about it from here on.
  std::string_view text;
  std::size_t position = 0;
  std::size_t valid_end = 0;   // the bytes [position, valid_end) are valid UTF-8, when it lies ahead
  std::size_t special_at = 0;  // of the next kEndOfText, or the text's size

  bool at_special() {
    if (end_of_text == EndOfText::ordinary || !vocabulary.end_of_text()) {
      special_at = text.size();
      return false;
    }
    if (special_at < position || position == 0) special_at = std::min(text.find(kEndOfText, position), text.size());
    return special_at == position;
  }

  // The end of the word at `position`. It depends on no byte past position + kBpeLookAhead.
  std::size_t word_end() {
    const std::size_t limit = std::min({text.size(), special_at, position + kMaxWordBytes});
    if (valid_end <= position) valid_end = position + utf8_valid_prefix(text.substr(position));
    if (valid_end == position) {
      std::size_t end = position + 1;
      while (end < limit && utf8_length(text.substr(end)) == 0) ++end;
      return end;
    }
    std::size_t end = std::min(limit, valid_end);
    while (end < valid_end && end > position && is_utf8_continuation(text[end])) --end;
    return position + pattern.match(text.substr(position, end - position));
  }

  void encode_word(std::string_view word, std::vector<Token>& tokens) {
    WordCache::Entry* entry = word.size() <= WordCache::kMaxBytes ? &cache.entry(word) : nullptr;
    if (entry != nullptr && WordCache::holds(*entry, word)) {
      tokens.insert(tokens.end(), entry->tokens.begin(), entry->tokens.begin() + entry->count);
      return;
    }
    const std::size_t before = tokens.size();
    symbols.clear();
    for (const char byte : word) symbols.push_back(vocabulary.byte_token(static_cast<unsigned char>(byte)));
    merger.merge(vocabulary.merges(), symbols, tokens);
    const std::span<const Token> made = std::span(tokens).subspan(before);
    if (entry != nullptr && made.size() <= WordCache::kMaxTokens) WordCache::store(*entry, word, made);
  }
};

BpeEncoder::BpeEncoder(const BpeVocabulary& vocabulary, EndOfText end_of_text) : state_(new State{vocabulary, end_of_text}) {}
BpeEncoder::~BpeEncoder() = default;

std::size_t BpeEncoder::encode_piece(std::string_view text, bool last, std::vector<Token>& tokens) {
  State& state = *state_;
  state.text = text;
  state.position = state.valid_end = state.special_at = 0;
  while (state.position < text.size() && (last || text.size() - state.position >= kBpeLookAhead)) {
    if (state.at_special()) {
      tokens.push_back(*state.vocabulary.end_of_text());
      state.position += kEndOfText.size();
      continue;
    }
    const std::size_t end = state.word_end();
    state.encode_word(text.substr(state.position, end - state.position), tokens);
    state.position = end;
  }
  state.text = {};
  return state.position;
}

std::vector<Token> BpeEncoder::encode(std::string_view text) {
  std::vector<Token> tokens;
  encode_piece(text, true, tokens);
  return tokens;
}

}  // namespace plimsoll
