#define XXH_INLINE_ALL
#include "formats/tokenizer/bpe_model.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <queue>
#include <span>
#include <utility>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/tokenizer_error.h"

namespace plimsoll {
namespace {

// The tokens of recent short pieces: most pieces of a text repeat. A newer piece replaces an older one of the same hash.
class PieceCache {
 public:
  static constexpr std::size_t kMostBytes = 30, kMostTokens = 8;

  struct alignas(64) Entry {
    std::uint8_t length = 0;  // 0: empty
    std::uint8_t count = 0;
    std::array<char, kMostBytes> text{};
    std::array<Token, kMostTokens> tokens{};

    bool holds(std::string_view piece) const {
      return length == piece.size() && std::memcmp(text.data(), piece.data(), piece.size()) == 0;
    }
    void store(std::string_view piece, std::span<const Token> made) {
      length = static_cast<std::uint8_t>(piece.size());
      count = static_cast<std::uint8_t>(made.size());
      std::ranges::copy(piece, text.begin());
      std::ranges::copy(made, tokens.begin());
    }
  };

  Entry& at(std::string_view piece) { return entries_[XXH3_64bits(piece.data(), piece.size()) & (entries_.size() - 1)]; }

 private:
  std::vector<Entry> entries_ = std::vector<Entry>(std::size_t{1} << 14);
};

// Merges symbols by rank, the leftmost first: by a scan for few symbols, by a heap for many, in O(n log n).
class Merger {
 public:
  // Appends the remaining symbols to `out`; overwrites `symbols`.
  void merge(const MergeTable& merges, std::vector<Token>& symbols, std::vector<Token>& out) {
    symbols.size() <= kFew ? merge_few(merges, symbols, out) : merge_many(merges, symbols, out);
  }

 private:
  static constexpr std::size_t kFew = 64;  // the most symbols for which a scan is faster than a heap

  struct Node {
    std::uint32_t previous, next;
    Token id;
  };

  static void merge_few(const MergeTable& merges, std::vector<Token>& symbols, std::vector<Token>& out) {
    std::array<std::uint32_t, kFew> ranks;  // of the merge of each element with the next one
    Token* ids = symbols.data();
    std::size_t size = symbols.size();
    const auto rank_at = [&](std::size_t i) { return i + 1 < size ? merges.rank(ids[i], ids[i + 1]) : MergeTable::kNoRank; };
    for (std::size_t i = 0; i < size; ++i) ranks[i] = rank_at(i);
    while (size > 1) {
      std::uint32_t* best = std::min_element(ranks.data(), ranks.data() + size);
      if (*best == MergeTable::kNoRank) break;
      const std::ptrdiff_t at = best - ranks.data();
      ids[at] = merges.result(*best);
      std::copy(ids + at + 2, ids + size, ids + at + 1);
      std::copy(best + 2, ranks.data() + size, best + 1);
      --size;
      *best = rank_at(static_cast<std::size_t>(at));
      if (at > 0) best[-1] = rank_at(static_cast<std::size_t>(at) - 1);
    }
    out.insert(out.end(), ids, ids + size);
  }

  // A linked list, and a heap of (rank, position) whose stale entries are skipped.
  void merge_many(const MergeTable& merges, const std::vector<Token>& symbols, std::vector<Token>& out) {
    const auto size = static_cast<std::uint32_t>(symbols.size());
    nodes_.resize(size);
    for (std::uint32_t i = 0; i < size; ++i) nodes_[i] = {i - 1, i + 1, symbols[i]};
    const auto rank_at = [&](std::uint32_t i) {
      return nodes_[i].next < size ? merges.rank(nodes_[i].id, nodes_[nodes_[i].next].id) : MergeTable::kNoRank;
    };
    std::vector<std::uint64_t> first;
    for (std::uint32_t i = 0; i < size; ++i) {
      if (const std::uint32_t rank = rank_at(i); rank != MergeTable::kNoRank) first.push_back(std::uint64_t{rank} << 32 | i);
    }
    std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap(std::greater<>(), std::move(first));
    const auto push = [&](std::uint32_t i) {
      const std::uint32_t rank = rank_at(i);
      if (rank != MergeTable::kNoRank) heap.push(std::uint64_t{rank} << 32 | i);
    };
    while (!heap.empty()) {
      const auto rank = static_cast<std::uint32_t>(heap.top() >> 32);
      const auto at = static_cast<std::uint32_t>(heap.top());
      heap.pop();
      if (nodes_[at].id == kNoToken || rank_at(at) != rank) continue;
      Node& node = nodes_[at];
      nodes_[node.next].id = kNoToken;
      node.next = nodes_[node.next].next;
      node.id = merges.result(rank);
      if (node.next < size) nodes_[node.next].previous = at;
      push(at);
      if (node.previous < size) push(node.previous);
    }
    for (std::uint32_t i = 0; i < size; i = nodes_[i].next) out.push_back(nodes_[i].id);
  }

  std::vector<Node> nodes_;  // reused for all pieces
};

}  // namespace

struct BpeModel::State {
  const TokenTable& tokens;
  MergeTable merges;
  BpeRules rules;
  std::string where;
  Token unknown = kNoToken;
  std::array<Token, 0x180> low{};          // tokens of single characters
  std::array<Token, 256> bytes{};          // tokens of the characters of bytes
  std::array<Token, 256> bytes_by_code{};  // tokens of "<0x00>", "<0x01>", ...
  bool plain = true;                       // every byte has a token
  PieceCache cache;
  std::vector<Token> symbols;
  Merger merger;

  // False if one of the bytes has no token.
  bool add_bytes(std::string_view symbol) {
    const auto token = [&](char byte) { return bytes_by_code[static_cast<unsigned char>(byte)]; };
    if (std::ranges::any_of(symbol, [&](char byte) { return token(byte) == kNoToken; })) return false;
    for (const char byte : symbol) symbols.push_back(token(byte));
    return true;
  }

  void find_symbols(std::string_view piece) {
    std::size_t waiting = 0;  // unknown tokens that are not appended yet
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      const char32_t character = next_character(piece, at);
      const std::string_view symbol = piece.substr(begin, at - begin);
      const Token token = character < low.size() ? low[character] : tokens.find(symbol);
      if (token != kNoToken) {
        for (; waiting > 0; --waiting) symbols.push_back(unknown);
        symbols.push_back(token);
        continue;
      }
      // Unknown characters before these bytes come after them, as in the published implementation.
      if (rules.byte_fallback && add_bytes(symbol)) continue;
      if (rules.unknown.empty()) continue;
      if (unknown == kNoToken) {
        throw tokenizer_error(where, fmt::format("the text has an unknown character, and no token is '{}'", rules.unknown));
      }
      if (waiting > 0 && !rules.fuse_unknown) symbols.push_back(unknown);
      waiting = 1;
    }
    if (waiting > 0) symbols.push_back(unknown);
  }

  void encode(std::string_view piece, bool of_bytes, std::vector<Token>& out) {
    symbols.clear();
    if (of_bytes && plain && !rules.ignore_merges) {
      for (const char byte : piece) symbols.push_back(bytes[static_cast<unsigned char>(byte)]);
    } else {
      const std::string characters = of_bytes ? in_byte_characters(piece) : std::string();
      if (of_bytes) piece = characters;
      const Token whole = rules.ignore_merges ? tokens.find(piece) : kNoToken;
      if (whole != kNoToken) return out.push_back(whole);
      find_symbols(piece);
    }
    merger.merge(merges, symbols, out);
  }
};

BpeModel::BpeModel(const TokenTable& tokens, MergeTable merges, BpeRules rules, std::string where)
    : state_(new State{tokens, std::move(merges), std::move(rules), std::move(where)}) {
  State& s = *state_;
  for (std::size_t i = 0; i < s.low.size(); ++i) {
    std::string text;
    append_character(text, static_cast<char32_t>(i));
    s.low[i] = tokens.find(text);
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    s.bytes[byte] = s.low[byte_character(static_cast<unsigned char>(byte))];
    s.plain = s.plain && s.bytes[byte] != kNoToken;
    s.bytes_by_code[byte] = tokens.find(fmt::format("<0x{:02X}>", byte));
  }
  if (!s.rules.unknown.empty()) s.unknown = tokens.find(s.rules.unknown);
}

BpeModel::~BpeModel() = default;
BpeModel::BpeModel(BpeModel&&) noexcept = default;

const MergeTable& BpeModel::merges() const { return state_->merges; }
Token BpeModel::unknown() const { return state_->unknown; }

void BpeModel::encode(std::string_view piece, bool bytes, std::vector<Token>& out) {
  if (piece.empty()) return;
  if (piece.size() > PieceCache::kMostBytes) return state_->encode(piece, bytes, out);
  PieceCache::Entry& entry = state_->cache.at(piece);
  if (entry.holds(piece)) {
    out.insert(out.end(), entry.tokens.begin(), entry.tokens.begin() + entry.count);
    return;
  }
  const std::size_t before = out.size();
  state_->encode(piece, bytes, out);
  const std::span<const Token> made = std::span(out).subspan(before);
  if (made.size() <= PieceCache::kMostTokens) entry.store(piece, made);
}

}  // namespace plimsoll
