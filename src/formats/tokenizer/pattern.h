// A regular expression of a tokenizer.json. It is written for Oniguruma and translated for PCRE2, with Oniguruma's meaning of
// classes (\s without U+180E, \w, scripts without extensions), possessive marks and line ends. Syntax without an equal in PCRE2
// is refused by name. A pattern that takes too long on a text ends in an error. Both are E-TOKENIZER.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct Match {
  std::size_t begin = 0, end = 0;  // bytes [begin, end)
};

class Pattern {
 public:
  // `where`: the part of the file, for messages.
  Pattern(std::string_view onigurumas, std::string where);

  // All matches from left to right, in the iteration of Oniguruma's users: an empty match directly after a match does not count.
  // `text` is valid UTF-8. Overwrites `matches`.
  void find_all(std::string_view text, std::vector<Match>& matches) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// The pattern for PCRE2 with the options UTF, UCP and MULTILINE and the newline LF.
std::string translated_pattern(std::string_view onigurumas, const std::string& where);

}  // namespace plimsoll
