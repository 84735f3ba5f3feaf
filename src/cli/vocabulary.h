// Prompts as tokens, and the bytes of every token: all that generating needs of a vocabulary. Its merges, the text of its files
// and the encoder stay in a child process; what comes back is charged to the plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "models/family.h"

namespace plimsoll {

class Vocabulary {
 public:
  // E-DATA-TOKEN: a prompt has a token that the model has no row for. E-TOKENIZER, E-DATA-TEXT: as the tokenizer says.
  Vocabulary(const std::filesystem::path& folder, const ModelFacts& model, const std::vector<std::string>& prompts);

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
