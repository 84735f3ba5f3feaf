// The pre-tokenizer of a tokenizer.json: it cuts normalised text into pieces, each of which the model takes by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/component.h"
#include "formats/tokenizer/normalizer.h"
#include "formats/tokenizer/pattern.h"

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

class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  // The steps that a component says. E-TOKENIZER: a step that is not computed.
  explicit PreTokenizer(const Component& component) : where_(component.where()) { add(component); }

  // The pieces of a text below 1 GiB. E-TOKENIZER: it grows out of bounds.
  Pieces cut(Fragment fragment) const;
  // Its pieces have a character for each byte.
  bool byte_level() const { return byte_level_; }

 private:
  void add(const Component& component);

  std::string where_;
  std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
  bool byte_level_ = false;
};

// The fate of the parts of a text that a pattern matches.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// A part of a text, and whether a pattern matches it.
struct SplitPart {
  Match range;
  bool matched = false;
};
// All of a text of `size` bytes as matches and what lies between them; `invert` tells the two the other way round.
void split_parts(std::size_t size, const std::vector<Match>& matches, bool invert, std::vector<SplitPart>& parts);
// The pieces that a text falls into; some may be empty.
std::vector<Match> split_pieces(const std::vector<SplitPart>& parts, SplitBehavior behavior);

}  // namespace plimsoll
