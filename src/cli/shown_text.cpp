#include "cli/shown_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "formats/utf8.h"

namespace plimsoll {
namespace {

constexpr bool is_plain(char byte) { return byte >= 0x20 && byte < 0x7f; }

// True for control characters of two or three bytes: C1, embeddings, overrides and isolates.
bool is_control(std::string_view symbol) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(symbol[i]); };
  if (symbol.size() == 2) return at(0) == 0xC2 && at(1) < 0xA0;
  if (symbol.size() != 3 || at(0) != 0xE2) return false;
  return (at(1) == 0x80 && at(2) >= 0xAA && at(2) <= 0xAE) || (at(1) == 0x81 && at(2) >= 0xA6 && at(2) <= 0xA9);
}

std::uint32_t number_of(std::string_view symbol) {
  const auto bits = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(symbol[i]) & 0x3F); };
  return symbol.size() == 2
             ? (static_cast<std::uint32_t>(static_cast<unsigned char>(symbol[0]) & 0x1F) << 6) | bits(1)
             : (static_cast<std::uint32_t>(static_cast<unsigned char>(symbol[0]) & 0x0F) << 12) | bits(1) << 6 | bits(2);
}

// The number of leading bytes that need no escape; 0: the first symbol is to be escaped.
std::size_t bytes_that_stay(std::string_view text, ShownAs as) {
  std::size_t at = 0;
  while (at < text.size()) {
    const char byte = text[at];
    const bool space = (byte == '\n' || byte == '\t') && as != ShownAs::line;
    if (is_plain(byte) || space) {
      ++at;
      continue;
    }
    if (static_cast<unsigned char>(byte) < 0x80) break;
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0 || is_control(text.substr(at, length))) break;
    at += length;
  }
  return at;
}

}  // namespace

void put_shown(std::string_view text, ShownAs as, const std::function<void(std::string_view)>& put) {
  while (!text.empty()) {
    const std::size_t stays = bytes_that_stay(text, as);
    if (stays > 0) put(text.substr(0, stays));
    text.remove_prefix(stays);
    if (text.empty()) return;
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text));
    const auto byte = static_cast<unsigned char>(text.front());
    char escape[8];
    char* end = escape;
    if (as == ShownAs::line && (byte == '\n' || byte == '\t')) {
      end = fmt::format_to(escape, "\\{}", byte == '\n' ? 'n' : 't');
    } else if (length > 1) {
      end = fmt::format_to(escape, "\\u{:04x}", number_of(text.substr(0, length)));
    } else {
      end = as == ShownAs::json ? fmt::format_to(escape, "\\u{:04x}", byte) : fmt::format_to(escape, "\\x{:02x}", byte);
    }
    put({escape, static_cast<std::size_t>(end - escape)});
    text.remove_prefix(length);
  }
}

std::string shown_text(std::string_view text, ShownAs as) {
  std::string shown;
  put_shown(text, as, [&](std::string_view part) { shown += part; });
  return shown;
}

std::string ShownStream::add(std::string_view part) {
  constexpr std::size_t kLongest = 4;
  held_ += part;
  // An incomplete character begins at most three bytes before the end.
  std::size_t whole = held_.size();
  for (std::size_t back = 1; back < kLongest && back <= held_.size(); ++back) {
    const std::size_t at = held_.size() - back;
    const auto byte = static_cast<unsigned char>(held_[at]);
    if (is_utf8_continuation(held_[at])) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    if (length > back) whole = at;
    break;
  }
  std::string shown = shown_text(std::string_view(held_).substr(0, whole));
  held_.erase(0, whole);
  return shown;
}

std::string ShownStream::end() { return shown_text(std::exchange(held_, {})); }

}  // namespace plimsoll
