// The BPE model of a tokenizer: the characters of a piece become symbols, which are merged by rank, the leftmost first.
// Memory: a cache of recent short pieces of 1 MiB, and 36 bytes for each byte of the longest piece.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/merge_table.h"
#include "formats/tokenizer/token_table.h"

namespace plimsoll {

// Settings of the model next to its tokens and merges.
struct BpeRules {
  std::string unknown;  // text of the token for characters that the vocabulary lacks; empty: they vanish
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

class BpeModel {
 public:
  // Keeps a reference to the table.
  BpeModel(const TokenTable& tokens, MergeTable merges, BpeRules rules, std::string where);
  ~BpeModel();
  BpeModel(BpeModel&&) noexcept;

  // Appends the tokens of a piece. `bytes`: each byte stands for its character (byte_character()); it is the same for all pieces
  // of a model.
  void encode(std::string_view piece, bool bytes, std::vector<Token>& out);
  const MergeTable& merges() const;
  Token unknown() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll
