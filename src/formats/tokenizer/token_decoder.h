// The decoder of a tokenizer.json: from the texts of tokens to one text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/component.h"

namespace plimsoll {

class TokenDecoder {
 public:
  // The default decoder joins the texts with spaces.
  TokenDecoder() = default;
  // E-TOKENIZER: the decoder is not supported.
  explicit TokenDecoder(const Component& component);

  std::string decode(std::vector<std::string> tokens) const;
  // The bytes that a token adds after others. Steps on the whole text do not take part.
  std::string inside(std::string token) const;

 private:
  struct Step {
    std::function<void(std::vector<std::string>& tokens)> apply;
    // Changes one token in the middle of a text; its bytes may be a part of a character.
    std::function<void(std::string& token)> apply_inside;
  };
  void add(const Component& component);
  // Adds a step that changes each token by itself.
  void add_each(std::function<void(std::string&)> change);

  std::string where_;
  std::vector<Step> steps_;
  std::size_t separate_ = 0;  // number of steps before the tokens become one text
  bool fused_ = false, given_ = false;
};

}  // namespace plimsoll
