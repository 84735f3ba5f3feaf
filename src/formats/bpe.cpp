#define PCRE2_CODE_UNIT_WIDTH 8
#include "formats/bpe.h"

#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <queue>
#include <span>

#include "base/error.h"
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

constexpr std::size_t kShortWord = 64;

// Repeats the best merge of a short word; a scan beats a heap at this size.
void merge_short(const BpeVocabulary& vocabulary, std::string_view word, std::vector<Token>& out) {
  std::array<Token, kShortWord> ids;
  std::array<std::uint32_t, kShortWord> ranks;  // of merging an element with the next one
  std::size_t size = word.size();
  for (std::size_t i = 0; i < size; ++i) ids[i] = vocabulary.byte_token(static_cast<unsigned char>(word[i]));
  const auto rank_at = [&](std::size_t i) {
    return i + 1 < size ? vocabulary.merge_rank(ids[i], ids[i + 1]) : BpeVocabulary::kNoRank;
  };
  for (std::size_t i = 0; i < size; ++i) ranks[i] = rank_at(i);
  while (size > 1) {
    const std::size_t best = static_cast<std::size_t>(std::min_element(ranks.begin(), ranks.begin() + size) - ranks.begin());
    if (ranks[best] == BpeVocabulary::kNoRank) break;
    ids[best] = vocabulary.merged(ranks[best]);
    std::copy(ids.begin() + best + 2, ids.begin() + size, ids.begin() + best + 1);
    std::copy(ranks.begin() + best + 2, ranks.begin() + size, ranks.begin() + best + 1);
    --size;
    ranks[best] = rank_at(best);
    if (best > 0) ranks[best - 1] = rank_at(best - 1);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + size);
}

// The same for long words in O(n log n): a linked list, and a heap of (rank, position) whose stale entries are skipped.
void merge_long(const BpeVocabulary& vocabulary, std::string_view word, std::vector<Token>& out) {
  constexpr Token kDead = 0xFFFFFFFF;
  struct Node {
    std::uint32_t previous, next;
    Token id;  // kDead: a part of the element before it
  };
  const auto size = static_cast<std::uint32_t>(word.size());
  std::vector<Node> nodes(size);
  for (std::uint32_t i = 0; i < size; ++i) nodes[i] = {i - 1, i + 1, vocabulary.byte_token(static_cast<unsigned char>(word[i]))};
  const auto rank_at = [&](std::uint32_t i) {
    return nodes[i].next < size ? vocabulary.merge_rank(nodes[i].id, nodes[nodes[i].next].id) : BpeVocabulary::kNoRank;
  };
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap;
  const auto push = [&](std::uint32_t i) {
    const std::uint32_t rank = rank_at(i);
    if (rank != BpeVocabulary::kNoRank) heap.push(std::uint64_t{rank} << 32 | i);
  };
  for (std::uint32_t i = 0; i < size; ++i) push(i);
  while (!heap.empty()) {
    const auto rank = static_cast<std::uint32_t>(heap.top() >> 32);
    const auto at = static_cast<std::uint32_t>(heap.top());
    heap.pop();
    if (nodes[at].id == kDead || rank_at(at) != rank) continue;
    Node& node = nodes[at];
    nodes[node.next].id = kDead;
    node.next = nodes[node.next].next;
    node.id = vocabulary.merged(rank);
    if (node.next < size) nodes[node.next].previous = at;
    push(at);
    if (node.previous < size) push(node.previous);
  }
  for (std::uint32_t i = 0; i < size; i = nodes[i].next) out.push_back(nodes[i].id);
}

}  // namespace

struct BpeEncoder::State {
  const BpeVocabulary& vocabulary;
  EndOfText end_of_text;
  WordPattern pattern;
  WordCache cache;

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
    if (word.size() > kShortWord) return merge_long(vocabulary, word, tokens);
    if (word.size() > WordCache::kMaxBytes) return merge_short(vocabulary, word, tokens);
    WordCache::Entry& entry = cache.entry(word);
    if (WordCache::holds(entry, word)) {
      tokens.insert(tokens.end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
      return;
    }
    const std::size_t before = tokens.size();
    merge_short(vocabulary, word, tokens);
    const std::span<const Token> made = std::span(tokens).subspan(before);
    if (made.size() <= WordCache::kMaxTokens) WordCache::store(entry, word, made);
  }
};

BpeEncoder::BpeEncoder(const BpeVocabulary& vocabulary, EndOfText end_of_text)
    : state_(new State{vocabulary, end_of_text, {}, {}, {}, 0, 0, 0}) {}
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
