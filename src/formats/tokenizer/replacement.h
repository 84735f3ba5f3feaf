// {"pattern": {"String" or "Regex": ...}, "content": ...}: what a normalizer, a decoder and a Split look for, and what the first
// two put there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/component.h"
#include "formats/tokenizer/pattern.h"

namespace plimsoll {

class Search {
 public:
  // The search of the key "pattern".
  explicit Search(const Component& component);

  void find_all(std::string_view text, std::vector<Match>& matches) const;
  // E-TOKENIZER: the text grows out of bounds.
  std::string replaced(std::string_view text, std::string_view content) const;
  std::string replaced(std::string_view text, std::string_view content, const std::vector<Match>& matches) const;

 private:
  std::string plain_, where_;
  std::optional<Pattern> pattern_;
};

}  // namespace plimsoll
