#include "formats/jinja/text_functions.h"

#include <cstring>
#include <set>

#include "formats/jinja/unicode.h"
#include "formats/tokenizer/character.h"

namespace plimsoll::jinja {

Text stripped(const Evaluator& evaluator, const Text& text, const Value& characters, bool left, bool right) {
  const auto strip = [&](auto is) {
    const std::size_t begin = left ? run_end(text.bytes(), 0, is) : 0;
    return text.part(begin, right ? run_begin(text.bytes(), text.size(), begin, is) : text.size());
  };
  if (characters.is_undefined() || characters.is_none()) return strip(is_space);
  std::set<char32_t> set;
  const std::string& written = evaluator.need_text(characters, "strip").bytes();
  for (std::size_t at = 0; at < written.size();) set.insert(next_character(written, at));
  return strip([&](char32_t c) { return set.contains(c); });
}

Text replaced(Evaluator& evaluator, const Text& text, const Text& from, const Text& to, std::int64_t most) {
  const std::string& bytes = text.bytes();
  Text out;
  std::size_t done = 0, at = 0;
  for (; most != 0; --most) {
    const std::size_t found = find_bytes(bytes, from.bytes(), at);
    if (found == std::string::npos) break;
    evaluator.charge_memory(to.size() + (found - done));
    out.append(text, done, found);
    out.append(to);
    done = found + from.size();
    at = done;
    if (!from.empty()) continue;
    if (at == bytes.size()) break;
    next_character(bytes, at);
  }
  out.append(text, done, bytes.size());
  return out;
}

namespace {

// Appends the bytes [begin, end) in lower case.
void append_lowered(Text& out, const Text& text, std::size_t begin, std::size_t end) {
  text.part(begin, end).each_stretch([&](std::string_view stretch, Origin origin) {
    out.append(lower(text.bytes(), begin, begin + stretch.size()), origin);
    begin += stretch.size();
  });
}

}  // namespace

Text lowered(const Text& text) {
  Text out;
  append_lowered(out, text, 0, text.size());
  return out;
}

Text uppered(const Text& text) { return each_stretch_of(text, upper); }

Text capitalized(const Text& text) {
  std::size_t first = 0;
  if (!text.empty()) next_character(text.bytes(), first);
  Text out = each_stretch_of(text.part(0, first), capitalize);
  append_lowered(out, text, first, text.size());
  return out;
}

Text titled(const Text& text, bool filter) {
  const auto parts_words = [&](char32_t c) {
    if (!filter) return !is_cased(c);
    return c == U'-' || c == U'(' || c == U'{' || c == U'[' || c == U'<' || is_space(c);
  };
  const std::string& bytes = text.bytes();
  Text out;
  bool inside = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t begin = at;
    const bool parts = parts_words(next_character(bytes, at));
    if (parts) {
      out.append(text, begin, at);
    } else if (inside) {
      append_lowered(out, text, begin, at);
    } else {
      const Text one = text.part(begin, at);
      out.append(filter ? uppered(one) : each_stretch_of(one, capitalize));
    }
    inside = !parts;
  }
  return out;
}

bool has_case(std::string_view text, bool upper) {
  bool some = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (!is_cased(c)) continue;
    if (upper ? !is_upper(c) : !is_lower(c)) return false;
    some = true;
  }
  return some;
}

std::vector<TextRange> line_ranges(std::string_view text, bool with_ends) {
  const auto ends = [](char32_t c) {
    return (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  std::vector<TextRange> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t before = at;
    const char32_t c = next_character(text, at);
    if (!ends(c)) continue;
    if (c == U'\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back({begin, with_ends ? at : before});
    begin = at;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::string backwards(std::string_view text) { return {text.rbegin(), text.rend()}; }

// Searches from the end in linear time, which no library function guarantees.
std::size_t last_bytes(std::string_view text, std::string_view part) {
  const std::size_t found = find_bytes(backwards(text), backwards(part));
  return found == std::string_view::npos ? found : text.size() - found - part.size();
}

}  // namespace plimsoll::jinja
