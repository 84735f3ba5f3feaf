// A regular expression of a tokenizer.json. Those are written for Oniguruma; they are translated for PCRE2, with Oniguruma's
// meaning of classes (\s without U+180E, \w, scripts without extensions), possessive marks and line ends. What has no equal
// meaning is refused by name, and a pattern that takes too long on a text ends in an error (both E-TOKENIZER).
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
  // `where` names the part of the file, for messages.
  Pattern(std::string_view onigurumas, std::string where);

  // All matches from left to right, as Oniguruma's users iterate: an empty match right behind a match does not count. `text` is
  // valid UTF-8. Replaces what `matches` held.
  void find_all(std::string_view text, std::vector<Match>& matches) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// The pattern for PCRE2, compiled with UTF, UCP and MULTILINE and the newline LF.
std::string translated_pattern(std::string_view onigurumas, const std::string& where);

}  // namespace plimsoll
