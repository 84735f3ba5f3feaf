// The post-processor of a tokenizer.json: the tokens before and after those of a text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/tokenizer/component.h"
#include "formats/tokenizer/token.h"

namespace plimsoll {

class PostProcessor {
 public:
  PostProcessor() = default;
  // E-TOKENIZER: the processor is not supported, a template lacks the text, or a special token is not described.
  explicit PostProcessor(const Component& component) { add(component); }

  const std::vector<Token>& before() const { return before_; }
  const std::vector<Token>& behind() const { return behind_; }
  // The ranges of tokens in a text leave out spaces at their sides.
  bool trims_spaces() const { return trims_; }
  bool keeps_first_space() const { return keeps_first_; }

 private:
  void add(const Component& component);
  void add_template(const Component& component);
  void add_trimming(const Component& component);

  std::vector<Token> before_, behind_;
  bool inserts_ = false, trims_ = false, keeps_first_ = false;
};

struct InsertedToken {
  std::string text;
  std::int64_t id = 0;
};
// A TemplateProcessing that puts the given tokens before and after a text; null if neither is given.
nlohmann::ordered_json template_processing(const std::optional<InsertedToken>& before,
                                           const std::optional<InsertedToken>& behind);

}  // namespace plimsoll
