// Functions that methods and filters of texts share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/evaluator.h"

namespace plimsoll::jinja {

// The first place of a part at `from` or after it, in linear time for any texts; npos where there is none. And the last place.
std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t from = 0);
std::size_t last_bytes(std::string_view text, std::string_view part);
// Without the characters of `characters` at its sides; without white space where that is none or undefined.
Text stripped(const Evaluator& evaluator, const Text& text, const Value& characters, bool left, bool right);
// `most`: below 0, all.
Text replaced(Evaluator& evaluator, const Text& text, const Text& from, const Text& to, std::int64_t most);
Text lowered(const Text& text);
Text uppered(const Text& text);
Text capitalized(const Text& text);
// `filter`: words as the filter `title` parts them, else as str.title() does.
Text titled(const Text& text, bool filter);
// Some character has a case, and all that do have this one.
bool has_case(std::string_view text, bool upper);
// The lines of str.splitlines().
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
