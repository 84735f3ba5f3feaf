// The models of a tokenizer.json: a piece of text becomes tokens. Each keeps a reference to the table of its tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/merge_table.h"
#include "formats/piece_merger.h"
#include "formats/tokenizer/token_table.h"
#include "formats/word_cache.h"

namespace plimsoll {

// What the file says of a BPE model beside its tokens and merges.
struct BpeRules {
  std::string unknown;  // text of the token for what the vocabulary lacks; empty: that vanishes
  std::string continuing_prefix, end_suffix;
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

// Merges the characters of a piece (formats/piece_merger.h).
class BpeModel {
 public:
  BpeModel(const TokenTable& tokens, MergeTable merges, BpeRules rules, std::string where);

  // Appends.
  void encode(std::string_view piece, std::vector<Token>& out);
  const MergeTable& merges() const { return merges_; }
  Token unknown() const { return unknown_; }

 private:
  void find_symbols(std::string_view piece);
  bool add_bytes(std::string_view symbol);
  Token symbol_token(char32_t character, std::string_view text) const;

  const TokenTable& tokens_;
  MergeTable merges_;
  BpeRules rules_;
  std::string where_;
  Token unknown_ = kNoToken;
  std::array<Token, 0x180> low_{};  // tokens of single characters
  std::array<Token, 256> bytes_{};  // of "<0x00>" and so on
  WordCache cache_;
  std::vector<Token> symbols_;
  PieceMerger merger_;
};

// The longest token at the front, and so on; behind the front with a prefix.
class WordPieceModel {
 public:
  // E-TOKENIZER: no token is `unknown`.
  WordPieceModel(const TokenTable& tokens, std::string unknown, std::string prefix, std::size_t most_characters,
                 const std::string& where);

  void encode(std::string_view piece, std::vector<Token>& out) const;
  Token unknown() const { return unknown_; }

 private:
  const TokenTable& tokens_;
  Token unknown_;
  std::string prefix_;
  std::size_t most_characters_;
};

}  // namespace plimsoll
