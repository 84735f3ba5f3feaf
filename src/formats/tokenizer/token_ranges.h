// The ranges of a text from which its tokens come. They are found afterwards by comparing the tokens with the text, so encoding
// records nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/byte_range.h"
#include "formats/tokenizer/normalizer.h"
#include "formats/tokenizer/token.h"

namespace plimsoll {

// For each byte of a normalised text, the raw bytes from which it comes. The raw text is divided at places over which no normal
// form joins characters, and each part is normalised again. If the parts do not give the normalised text, each byte comes from
// the whole raw text.
std::vector<ByteRange> origins(const Normalizer& normalizer, std::string_view raw, const Fragment& normalized);
// The bytes of the normalised text that come from `ranges` of the raw one.
std::vector<ByteRange> carried_over(std::span<const ByteRange> ranges, const std::vector<ByteRange>& origins);

// A token to find in a text.
struct TokenTrace {
  std::string_view text;  // its text in the vocabulary
  bool unknown = false;   // it stands for characters that the vocabulary lacks
};

// The bytes of a text from which each of its tokens comes, as whole characters. `byte_level`: the tokens have a character for
// each byte. E-TOKENIZER (in `where`): the tokens do not belong to the text.
std::vector<ByteRange> trace_tokens(std::string_view text, std::span<const TokenTrace> tokens, bool byte_level,
                                    const std::string& where);

}  // namespace plimsoll
