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

#include "formats/merge_table.h"

namespace plimsoll {

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
  // The token of kEndOfText, where there is one.
  std::optional<Token> end_of_text() const { return end_of_text_; }
  // The text of tokens; data_error E-DATA-TOKEN for a token outside the vocabulary.
  std::string decode(std::span<const std::int32_t> tokens) const;
  std::string decode(std::span<const Token> tokens) const;
  // Identifies tokens and merges, whatever files they came from. Names of cached token files follow from it.
  std::string hash() const;

  Token byte_token(unsigned char byte) const { return byte_token_[byte]; }
  const MergeTable& merges() const { return merges_; }

 private:
  std::string token_bytes_;                 // of all tokens, in the order of their ids
  std::vector<std::uint32_t> token_begin_;  // one more than tokens
  MergeTable merges_;
  Token byte_token_[256] = {};
  std::optional<Token> end_of_text_;
};

}  // namespace plimsoll
