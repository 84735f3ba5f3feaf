#include "base/shell.h"

#include <algorithm>

namespace plimsoll {

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  const bool plain = std::ranges::all_of(word, [&](char c) { return kPlain.find(c) != std::string_view::npos; });
  if (plain && !word.empty()) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace plimsoll
