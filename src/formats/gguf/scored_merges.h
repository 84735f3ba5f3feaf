// The merges that a vocabulary with scores means: SentencePiece joins the pair whose token has the highest score.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/tokenizer/token.h"
#include "formats/tokenizer/token_table.h"

namespace plimsoll {

// A token as two others, where it is made of them.
struct ScoredMerge {
  float score;
  Token token, left, right;
  std::uint32_t left_bytes;
  std::uint16_t left_characters, right_characters;
};

// Every token of `merged` as every two that it is made of, in the order in which transformers makes merges of them. Bytes and
// special tokens come of no merge.
std::vector<ScoredMerge> scored_merges(const TokenTable& table, const std::vector<float>& scores,
                                       const std::vector<bool>& merged);

}  // namespace plimsoll
