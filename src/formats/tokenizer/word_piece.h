// The WordPiece model of a tokenizer: the longest token at the front of the rest of a piece, again and again. Tokens after the
// first have a prefix.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/token_table.h"

namespace plimsoll {

class WordPieceModel {
 public:
  // Keeps a reference to the table. E-TOKENIZER: no token has the text `unknown`.
  WordPieceModel(const TokenTable& tokens, std::string_view unknown, std::string prefix, std::size_t most_characters,
                 const std::string& where);

  // Like BpeModel::encode().
  void encode(std::string_view piece, bool bytes, std::vector<Token>& out) const;
  Token unknown() const { return unknown_; }

 private:
  const TokenTable& tokens_;
  Token unknown_;
  std::string prefix_;
  std::size_t most_characters_;
};

}  // namespace plimsoll
