// The decoder of a tokenizer.json: the texts of tokens become one text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/component.h"

namespace plimsoll {

class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // A token in the middle of a text, as bytes that may be a part of a character.
  virtual void apply_inside(std::string& token) const = 0;
};

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
  void add(const Component& component);

  std::string where_;
  std::vector<std::unique_ptr<DecoderStep>> steps_;
  std::size_t separate_ = 0;  // steps that see tokens apart
  bool fused_ = false, given_ = false;
};

}  // namespace plimsoll
