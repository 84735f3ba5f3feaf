// Prompts as tokens, and the bytes of every token: the parts of a vocabulary that generation needs. Merges, file texts and the
// encoder stay in a child process; the returned bytes are charged to the plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "models/family.h"

namespace plimsoll {

// Texts that become prompts.
struct PromptTexts {
  std::vector<std::string> texts;
  std::string where = "prompt";                           // their name, for errors
  std::function<void(const std::string&)> say = nullptr;  // gets notes on them, in a child process
};

class Vocabulary {
 public:
  // E-DATA-TOKEN if a prompt has a token without a row in the model; E-TOKENIZER and E-DATA-TEXT of the tokenizer.
  Vocabulary(const std::filesystem::path& folder, const ModelFacts& model, const PromptTexts& prompts = {});

  const std::vector<std::vector<std::int32_t>>& prompts() const { return prompts_; }
  std::int64_t size() const;
  Bytes heap() const;
  std::string decode(std::int32_t token) const;

 private:
  void unpack(const std::string& answer);

  std::vector<std::vector<std::int32_t>> prompts_;
  std::vector<std::uint32_t> ends_;  // empty: tokens are bytes
  std::string text_;
};

}  // namespace plimsoll
