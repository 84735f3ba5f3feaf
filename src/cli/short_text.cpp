#include "cli/short_text.h"

#include "formats/utf8.h"

namespace plimsoll {
namespace {

std::string in_one_line(std::string_view text) {
  std::string line;
  for (const char letter : text) {
    const bool blank = letter == ' ' || (letter >= '\t' && letter <= '\r');
    if (!blank) {
      line += letter;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  if (line.ends_with(' ')) line.pop_back();
  return line;
}

}  // namespace

std::string first_words(std::string_view text, std::size_t most) {
  std::string line = in_one_line(text);
  if (line.size() <= most) return line;
  while (most > 0 && is_utf8_continuation(line[most])) --most;
  return line.substr(0, most) + "…";
}

std::string last_words(std::string_view text, std::size_t most) {
  const std::string line = in_one_line(text);
  if (line.size() <= most) return line;
  std::size_t begin = line.size() - most;
  while (begin < line.size() && is_utf8_continuation(line[begin])) ++begin;
  return "…" + line.substr(begin);
}

}  // namespace plimsoll
