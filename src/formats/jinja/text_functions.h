// Functions of texts for methods and filters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/evaluator.h"

namespace plimsoll::jinja {

// The first place of `part` at `from` or after it, and the last place; npos: none. The time is linear for any texts.
std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t from = 0);
std::size_t last_bytes(std::string_view text, std::string_view part);
// The text without the characters of `characters` at its sides; without white space if `characters` is none or undefined.
Text stripped(const Evaluator& evaluator, const Text& text, const Value& characters, bool left, bool right);
// `most`: the limit of replacements; below 0: no limit.
Text replaced(Evaluator& evaluator, const Text& text, const Text& from, const Text& to, std::int64_t most);
Text lowered(const Text& text);
Text uppered(const Text& text);
Text capitalized(const Text& text);
// `filter`: the words of the filter `title`, else those of str.title().
Text titled(const Text& text, bool filter);
// True if there are cased characters and all of them have this case.
bool has_case(std::string_view text, bool upper);
// The lines as in str.splitlines().
std::vector<TextRange> line_ranges(std::string_view text, bool with_ends);
// The bytes in reverse.
std::string backwards(std::string_view text);

template <class Change>
Text each_stretch_of(const Text& text, Change&& change) {
  if (text.data().empty()) return Text(change(text.bytes()));
  Text out;
  text.each_stretch([&](std::string_view stretch, Origin origin) { out.append(change(stretch), origin); });
  return out;
}

}  // namespace plimsoll::jinja
