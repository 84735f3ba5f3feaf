#include "formats/tokenizer/tokenizer_error.h"

#include <utility>

namespace plimsoll {

Error tokenizer_error(std::string where, std::string message, std::string expected) {
  if (expected.empty()) expected = "a tokenizer.json that is computed here: docs/tokenizers.md lists its parts";
  return data_error("E-TOKENIZER", std::move(where), std::move(message), std::move(expected),
                    {Remedy::of_changes({{"data.train", "TOKENS.bin"}, {"data.format", "u16"}},
                                        "or u32, with tokens of the tokenizer itself")});
}

}  // namespace plimsoll
