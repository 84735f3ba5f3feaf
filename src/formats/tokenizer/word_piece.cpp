#include "formats/tokenizer/word_piece.h"

#include <fmt/core.h>

#include <utility>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/tokenizer_error.h"
#include "formats/utf8.h"

namespace plimsoll {

WordPieceModel::WordPieceModel(const TokenTable& tokens, std::string_view unknown, std::string prefix,
                               std::size_t most_characters, const std::string& where)
    : tokens_(tokens), unknown_(tokens.find(unknown)), prefix_(std::move(prefix)), most_characters_(most_characters) {
  if (unknown_ == kNoToken) throw tokenizer_error(where, fmt::format("no token is '{}', its unk_token", unknown));
}

void WordPieceModel::encode(std::string_view piece, bool bytes, std::vector<Token>& out) const {
  if (bytes) return encode(in_byte_characters(piece), false, out);
  if (piece.empty()) return;
  if (count_characters(piece) > most_characters_) return out.push_back(unknown_);
  const std::size_t before = out.size();
  std::string text;
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::string_view prefix = begin == 0 ? std::string_view() : std::string_view(prefix_);
    text = prefix;
    text += piece.substr(begin, tokens_.longest());
    std::size_t size = text.size();
    // A cut after the bytes of the longest token may lie within a character.
    while (size > prefix.size() && begin + size - prefix.size() < piece.size() &&
           is_utf8_continuation(piece[begin + size - prefix.size()])) {
      --size;
    }
    Token token = kNoToken;
    for (; size > prefix.size(); size = character_before(text, size)) {
      token = tokens_.find(std::string_view(text).substr(0, size));
      if (token != kNoToken) break;
    }
    if (token == kNoToken) {
      out.resize(before);
      return out.push_back(unknown_);
    }
    out.push_back(token);
    begin += size - prefix.size();
  }
}

}  // namespace plimsoll
