// Text to tokens by GPT-2's byte-level BPE: cut into words by GPT-2's pattern, then merge the bytes of each word by rank.
// Any bytes are accepted and decode(encode(x)) == x: bytes that are not valid UTF-8 belong to no class of the pattern, and each
// maximal run of them is a word of its own. A word longer than kMaxWordBytes is cut there (published tokenizers never cut).
// Results depend on the text alone: encoding in pieces gives the same tokens as encoding at once.
// Memory: a word cache of 1 MiB, fixed; scratch that grows with the longest word (36 bytes per byte of it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "formats/bpe_vocabulary.h"

namespace plimsoll {

inline constexpr std::size_t kMaxWordBytes = std::size_t{256} << 10;
// encode_piece() stops when fewer bytes than this are left: what follows could still change the next word.
inline constexpr std::size_t kBpeLookAhead = kMaxWordBytes + 16;

enum class EndOfText {
  recognised,  // "<|endoftext|>" in the text is one token
  ordinary,    // it is text like any other
};

class BpeEncoder {
 public:
  // Keeps a reference to the vocabulary.
  explicit BpeEncoder(const BpeVocabulary& vocabulary, EndOfText end_of_text = EndOfText::recognised);
  ~BpeEncoder();
  BpeEncoder(const BpeEncoder&) = delete;
  BpeEncoder& operator=(const BpeEncoder&) = delete;

  std::vector<Token> encode(std::string_view text);

  // Appends the tokens of the front of `text` and returns how many bytes they cover: all of them where this is the `last` piece,
  // else all but at most kBpeLookAhead. The next call starts with the uncovered bytes.
  std::size_t encode_piece(std::string_view text, bool last, std::vector<Token>& tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll
