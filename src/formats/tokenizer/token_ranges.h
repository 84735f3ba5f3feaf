// The places in a text that its tokens come from. Tokens are compared with the text that they were made of: encoding needs to
// keep nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/byte_range.h"
#include "formats/tokenizer/normalizer.h"
#include "formats/tokenizer/token.h"

namespace plimsoll {

// For each byte of a normalised text, the bytes of the raw one that it comes from. Characters are taken apart where no normal
// form joins them; a normalizer that does more than these parts show is answered with the whole text.
std::vector<ByteRange> origins(const Normalizer& normalizer, std::string_view raw, const Fragment& normalized);
// The bytes of the normalised text that come from these of the raw one.
std::vector<ByteRange> carried_over(std::span<const ByteRange> ranges, const std::vector<ByteRange>& origins);

// A token that is to be found in a text.
struct TokenTrace {
  std::string_view text;  // as the vocabulary has it
  bool unknown = false;   // it stands for characters that the vocabulary lacks
};

// The bytes of a text that each of its tokens comes from, whole characters. `byte_level`: the tokens have a character for each
// byte. E-TOKENIZER (in `where`): tokens are not those of the text.
std::vector<ByteRange> trace_tokens(std::string_view text, std::span<const TokenTrace> tokens, bool byte_level,
                                    const std::string& where);

}  // namespace plimsoll
