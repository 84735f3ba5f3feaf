// A byte-level BPE vocabulary as GPT-2 publishes it: the bytes of every token, and the merges by rank. At most 1,048,576 tokens.
// Read from encoder.json + vocab.bpe or vocab.json + merges.txt; both are parsed as hostile (data_error E-FORMAT-VOCABULARY).
// Memory: about 3 MiB for GPT-2's 50,257 tokens, plus about 5 MiB while it is being read; in proportion for larger ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

using Token = std::uint32_t;

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

class BpeVocabulary {
 public:
  static BpeVocabulary load(const std::filesystem::path& folder);
  // Writes vocab.json and merges.txt, each whole or not at all; load() and other tools read them back.
  void save(const std::filesystem::path& folder) const;

  std::int64_t size() const { return static_cast<std::int64_t>(token_begin_.size()) - 1; }
  // Bytes that hold any of its tokens: 2 or 4.
  std::int64_t bytes_per_token() const { return size() <= std::int64_t{1} << 16 ? 2 : 4; }
  std::string_view bytes_of(Token token) const {
    return std::string_view(token_bytes_).substr(token_begin_[token], token_begin_[token + 1u] - token_begin_[token]);
  }
  // As the files write a token and a merge: in GPT-2's byte characters.
  std::string written(Token token) const;
  std::string written_merge(std::size_t rank) const;
  std::size_t merges() const { return merges_.size(); }
  // The token of kEndOfText, where there is one.
  std::optional<Token> end_of_text() const { return end_of_text_; }
  // The text of tokens; data_error E-DATA-TOKEN for a token outside the vocabulary.
  std::string decode(std::span<const std::int32_t> tokens) const;
  std::string decode(std::span<const Token> tokens) const;
  // Identifies tokens and merges, whatever files they came from. Names of cached token files follow from it.
  std::string hash() const;

  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
  Token byte_token(unsigned char byte) const { return byte_token_[byte]; }
  // The rank of merging two tokens, lower is earlier; kNoRank where they do not merge.
  std::uint32_t merge_rank(Token left, Token right) const {
    const std::uint64_t hash = hash_of(left, right);
    for (std::uint32_t at = first_slot(hash);; at = (at + 1) & slot_mask_) {
      const Slot& slot = slots_[at];
      if (slot.rank == kNoRank || (slot.tag == tag_of(hash) && merges(slot.rank, left, right))) return slot.rank;
    }
  }
  Token merged(std::uint32_t rank) const { return merges_[rank].result; }

 private:
  struct Merge {
    Token left, right, result;
  };
  struct Slot {
    std::uint32_t tag, rank;
  };

  static std::uint64_t hash_of(Token left, Token right) {
    return (std::uint64_t{left} << 32 | right) * std::uint64_t{0x9E3779B97F4A7C15};
  }
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 16); }
  std::uint32_t first_slot(std::uint64_t hash) const { return static_cast<std::uint32_t>(hash >> 40) & slot_mask_; }
  bool merges(std::uint32_t rank, Token left, Token right) const {
    return merges_[rank].left == left && merges_[rank].right == right;
  }
  void index_merges(const std::string& where);

  std::string token_bytes_;                 // of all tokens, in the order of their ids
  std::vector<std::uint32_t> token_begin_;  // one more than tokens
  std::vector<Merge> merges_;               // by rank
  std::vector<Slot> slots_;                 // open addressing over merges_, at most half full
  std::uint32_t slot_mask_ = 0;
  Token byte_token_[256] = {};
  std::optional<Token> end_of_text_;
};

}  // namespace plimsoll
