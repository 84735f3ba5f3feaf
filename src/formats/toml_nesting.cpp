#include "formats/toml_nesting.h"

#include <algorithm>
#include <string>

namespace plimsoll {
namespace {

// The index of the last character of a string that opens at `begin`. Three quotes open a string of several lines.
std::size_t end_of_string(std::string_view text, std::size_t begin, int& line) {
  const char quote = text[begin];
  const bool several = text.substr(begin, 3) == std::string(3, quote);
  std::size_t i = begin + (several ? 3 : 1);
  for (; i < text.size(); ++i) {
    if (text[i] == '\n') {
      if (!several) return i - 1;
      ++line;
    } else if (text[i] == '\\' && quote == '"') {
      if (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (text[i] == quote && (!several || text.substr(i, 3) == std::string(3, quote))) {
      return several ? i + 2 : i;
    }
  }
  return i;
}

}  // namespace

std::optional<int> toml_nesting_line(std::string_view text) {
  constexpr int kMostDots = 8, kMostBrackets = 8;
  constexpr std::string_view kSeparators = "=,[]{}\n";
  int line = 1, dots = 0, brackets = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = end_of_string(text, i, line);
      continue;
    }
    if (c == '#') i = std::min(text.find('\n', i), text.size()) - 1;
    if (c == '.' && ++dots > kMostDots) return line;
    if ((c == '[' || c == '{') && ++brackets > kMostBrackets) return line;
    if (c == ']' || c == '}') --brackets;
    if (kSeparators.find(c) != std::string_view::npos) dots = 0;
    if (c == '\n') ++line;
  }
  return std::nullopt;
}

}  // namespace plimsoll
