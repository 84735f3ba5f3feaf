// The pre-tokenizer of a tokenizer.json. It cuts normalised text into pieces, which the model encodes one by one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/component.h"
#include "formats/tokenizer/normalizer.h"

namespace plimsoll {

struct Piece {
  std::uint32_t begin = 0, end = 0;          // bytes of the text
  bool at_start = false, continues = false;  // as in Fragment
};

struct Pieces {
  std::string text;
  std::vector<Piece> pieces;  // none is empty
  bool bytes = false;         // each byte stands for its character (byte_character())

  std::string_view of(const Piece& piece) const { return std::string_view(text).substr(piece.begin, piece.end - piece.begin); }
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  // The steps of a component. E-TOKENIZER: a step is not supported.
  explicit PreTokenizer(const Component& component) : where_(component.where()) { add(component); }

  // Cuts a text below 1 GiB. E-TOKENIZER: the text grows past most_grown().
  Pieces cut(Fragment fragment) const;
  // True if its pieces are byte-level: a character stands for each byte.
  bool byte_level() const { return byte_level_; }

 private:
  void add(const Component& component);

  std::string where_;
  std::vector<std::function<void(Pieces&)>> steps_;
  bool byte_level_ = false;
};

}  // namespace plimsoll
