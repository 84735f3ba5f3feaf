// The merges of a vocabulary with scores: SentencePiece joins the pair whose token has the highest score.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/tokenizer/token.h"
#include "formats/tokenizer/token_table.h"

namespace plimsoll {

// A split of a token into two others.
struct ScoredMerge {
  float score;
  Token token, left, right;
  std::uint32_t left_bytes;
  std::uint16_t left_characters, right_characters;
};

// All splits of all tokens in `merged`, in the order of the merges that transformers makes from them. `merged` is false for bytes
// and special tokens, which no merge yields.
std::vector<ScoredMerge> scored_merges(const TokenTable& table, const std::vector<float>& scores,
                                       const std::vector<bool>& merged);

}  // namespace plimsoll
