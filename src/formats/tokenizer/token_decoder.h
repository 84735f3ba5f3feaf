// The decoder of a tokenizer.json: the texts of tokens become one text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/component.h"

namespace plimsoll {

class TokenDecoder {
 public:
  // Without a decoder: the texts with spaces between them.
  TokenDecoder() = default;
  // E-TOKENIZER: a decoder that is not computed.
  explicit TokenDecoder(const Component& component);

  std::string decode(std::vector<std::string> tokens) const;
  // The bytes that a token adds after others. A step that acts on the whole text has no part in them.
  std::string inside(std::string token) const;

 private:
  struct Step {
    std::function<void(std::vector<std::string>& tokens)> apply;
    // A token in the middle of a text, as bytes that may be a part of a character.
    std::function<void(std::string& token)> apply_inside;
  };
  void add(const Component& component);
  // A step that changes each token by itself.
  void add_each(std::function<void(std::string&)> change);

  std::string where_;
  std::vector<Step> steps_;
  std::size_t separate_ = 0;  // steps that see tokens apart
  bool fused_ = false, given_ = false;
};

}  // namespace plimsoll
