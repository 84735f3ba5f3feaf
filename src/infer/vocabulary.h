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

class Vocabulary {
 public:
  // `say` gets notes on the prompts, in a child process. E-DATA-TOKEN if a prompt has a token without a row in the model;
  // E-TOKENIZER and E-DATA-TEXT of the tokenizer.
  Vocabulary(const std::filesystem::path& folder, const ModelFacts& model, const std::vector<std::string>& prompts = {},
             const std::function<void(const std::string&)>& say = {});

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
