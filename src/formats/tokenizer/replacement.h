// {"pattern": {"String" or "Regex": ...}, "content": ...}: the search of a normalizer, a decoder or a Split, and the replacement
// of the first two.
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
  // Reads the key "pattern".
  explicit Search(const Component& component);

  void find_all(std::string_view text, std::vector<Match>& matches) const;
  // E-TOKENIZER: the text grows past most_grown().
  std::string replaced(std::string_view text, std::string_view content) const;
  std::string replaced(std::string_view text, std::string_view content, const std::vector<Match>& matches) const;

 private:
  std::string plain_, where_;
  std::optional<Pattern> pattern_;
};

}  // namespace plimsoll
