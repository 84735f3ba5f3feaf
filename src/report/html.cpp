#include "report/html.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/text.h"
#include "formats/utf8.h"

namespace plimsoll {
namespace {

std::uint32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(character[i])); };
  switch (character.size()) {
    case 1: return byte(0);
    case 2: return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3: return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    default: return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  }
}

bool turns_text(std::uint32_t c) {
  return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

// Control characters and noncharacters, which a strict parser refuses.
bool is_forbidden(std::uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe;
}

}  // namespace

std::string escaped(std::string_view text) {
  const std::string whole = utf8_repaired(text);
  std::string out;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(rest));
    const std::string_view character = rest.substr(0, length);
    const std::uint32_t c = code_point(character);
    if (c == '\n' || c == '\t') {
      out += ' ';
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (is_forbidden(c) || turns_text(c)) {
      out += c < 0x100 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
    } else {
      out += character;
    }
    rest.remove_prefix(length);
  }
  return out;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t left = most / 2, right = text.size() - (most - left);
  while (left > 0 && is_utf8_continuation(text[left])) --left;
  while (right < text.size() && is_utf8_continuation(text[right])) ++right;
  return fmt::format("{}…{}", text.substr(0, left), text.substr(right));
}

std::string number_text(double number) {
  if (!std::isfinite(number)) return "-";
  const double size = std::abs(number);
  if (size == 0) return "0";
  if (size >= 1e6 || size < 1e-3) return fmt::format("{:.2e}", number);
  if (size >= 1000) return fmt::format("{:.1f}", number);
  return fmt::format("{:.{}f}", number, size >= 100 ? 1 : size >= 10 ? 2 : 4);
}

std::string number_text(std::optional<double> number) { return number ? number_text(*number) : "-"; }

std::string time_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds == 0) return "0 s";
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.1 ? 1 : 0);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  if (seconds > 1e12) return "-";
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  return whole >= 3600 ? fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60)
                       : fmt::format("{}m{:02}s", whole / 60, whole % 60);
}

std::string short_count(double count) {
  if (!std::isfinite(count)) return "-";
  const double size = std::abs(count);
  if (size >= 1e15) return fmt::format("{:.1e}", count);
  if (size >= 1e9) return fmt::format("{:.2f}G", count / 1e9);
  if (size >= 1e6) return fmt::format("{:.2f}M", count / 1e6);
  if (size >= 1e4) return fmt::format("{:.1f}k", count / 1e3);
  return count >= 0 ? grouped(static_cast<std::int64_t>(count + 0.5)) : fmt::format("{:.0f}", count);
}

std::string bytes_text(std::optional<Bytes> bytes) { return bytes ? to_text(*bytes) : "-"; }

void Table::fact(std::string_view name, std::string_view text) {
  if (!text.empty()) row({escaped(name), escaped(text)});
}

std::string Table::html() const {
  if (rows_.empty()) return "";
  std::string out = fmt::format("<div class=\"scroll\"><table{}>\n", numbers_ ? " class=\"numbers\"" : "");
  if (!caption_.empty()) out += fmt::format("<caption>{}</caption>\n", caption_);
  if (!head_.empty()) {
    out += "<thead><tr>";
    for (const std::string& cell : head_) out += fmt::format("<th scope=\"col\">{}</th>", cell);
    out += "</tr></thead>\n";
  }
  out += "<tbody>\n";
  for (const auto& cells : rows_) {
    out += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      out += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", cells[i]) : fmt::format("<td>{}</td>", cells[i]);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace plimsoll
