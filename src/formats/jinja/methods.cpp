// The methods of texts, lists, dicts and of `loop`, as Python has them.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "formats/jinja/evaluator.h"
#include "formats/jinja/parameters.h"
#include "formats/jinja/search.h"
#include "formats/jinja/text_functions.h"
#include "formats/jinja/unicode.h"
#include "formats/tokenizer/character.h"

namespace plimsoll::jinja {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

Value texts(Evaluator& evaluator, const Text& text, const std::vector<TextRange>& ranges, ListKind kind = ListKind::list) {
  std::vector<Value> parts;
  for (const TextRange& range : ranges) parts.push_back(evaluator.made(text.part(range.begin, range.end)));
  return evaluator.made(make_list(std::move(parts), kind));
}

// At white space; none of the parts is empty. The last one has all that is left.
std::vector<TextRange> words(std::string_view text, std::int64_t most) {
  std::vector<TextRange> parts;
  std::size_t at = space_end(text, 0);
  while (at < text.size()) {
    if (most-- == 0) {
      parts.push_back({at, space_begin(text, text.size(), at)});
      break;
    }
    std::size_t end = at;
    while (end < text.size()) {
      std::size_t next = end;
      if (is_space(next_character(text, next))) break;
      end = next;
    }
    parts.push_back({at, end});
    at = space_end(text, end);
  }
  return parts;
}

// The same from the end; the first one has all that is left.
std::vector<TextRange> last_words(std::string_view text, std::int64_t most) {
  std::vector<TextRange> parts;
  std::size_t end = space_begin(text, text.size(), 0);
  while (end > 0) {
    if (most-- == 0) {
      parts.push_back({space_end(text, 0), end});
      break;
    }
    std::size_t begin = end;
    while (begin > 0) {
      const std::size_t before = character_before(text, begin);
      std::size_t at = before;
      if (is_space(next_character(text, at))) break;
      begin = before;
    }
    parts.push_back({begin, end});
    end = space_begin(text, begin, 0);
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<TextRange> pieces(std::string_view text, std::string_view separator, std::int64_t most) {
  std::vector<TextRange> parts;
  std::size_t at = 0;
  for (; most > 0; --most) {
    const std::size_t found = find_bytes(text, separator, at);
    if (found == std::string_view::npos) break;
    parts.push_back({at, found});
    at = found + separator.size();
  }
  parts.push_back({at, text.size()});
  return parts;
}

std::vector<TextRange> last_pieces(std::string_view text, std::string_view separator, std::int64_t most) {
  std::vector<TextRange> parts = pieces(backwards(text), backwards(separator), most);
  for (TextRange& part : parts) part = {text.size() - part.end, text.size() - part.begin};
  std::ranges::reverse(parts);
  return parts;
}

Value split(Evaluator& evaluator, const Text& text, std::string_view name, CallArguments arguments) {
  const Parameters given(evaluator, name, std::move(arguments), {"sep", "maxsplit"});
  std::int64_t most = given.has(1) ? evaluator.need_whole(given.at(1), "maxsplit") : -1;
  if (most < 0) most = kNoLimit;
  const bool last = name == "rsplit";
  if (!given.has(0) || given.at(0).is_none()) {
    return texts(evaluator, text, last ? last_words(text.bytes(), most) : words(text.bytes(), most));
  }
  const Text& separator = evaluator.need_text(given.at(0), "split");
  if (separator.empty()) evaluator.fail("empty separator");
  return texts(evaluator, text,
               last ? last_pieces(text.bytes(), separator.bytes(), most) : pieces(text.bytes(), separator.bytes(), most));
}

// Line ends as str.splitlines() knows them.
Value lines(Evaluator& evaluator, const Text& text, CallArguments arguments) {
  const Parameters given(evaluator, "splitlines", std::move(arguments), {"keepends"});
  return texts(evaluator, text, line_ranges(text.bytes(), given.flag(0, false)));
}

Value partition(Evaluator& evaluator, const Text& text, bool last, CallArguments arguments) {
  const Parameters given(evaluator, "partition", std::move(arguments), {"sep"});
  const Text& separator = evaluator.need_text(given.need(0), "partition");
  if (separator.empty()) evaluator.fail("empty separator");
  const std::size_t size = text.size();
  const std::size_t at = last ? last_bytes(text.bytes(), separator.bytes()) : find_bytes(text.bytes(), separator.bytes());
  if (at == std::string::npos) {
    const std::vector<TextRange> first{{0, size}, {size, size}, {size, size}}, behind{{0, 0}, {0, 0}, {0, size}};
    return texts(evaluator, text, last ? behind : first, ListKind::tuple);
  }
  return texts(evaluator, text, {{0, at}, {at, at + separator.size()}, {at + separator.size(), size}}, ListKind::tuple);
}

// The part of a text that `start` and `end` of a method mean, in bytes; nothing where it lies behind the text.
std::optional<TextRange> span_of(const Evaluator& evaluator, const Text& text, const Parameters& given) {
  if (!given.has(1) && !given.has(2)) return TextRange{0, text.size()};
  const auto count = static_cast<std::int64_t>(count_characters(text.bytes()));
  const auto bound = [&](std::size_t index, std::int64_t fallback) {
    if (!given.has(index) || given.at(index).is_none()) return fallback;
    const std::int64_t at = evaluator.need_whole(given.at(index), "a position");
    return at < 0 ? std::max<std::int64_t>(0, at < -count ? 0 : at + count) : at;
  };
  const std::int64_t first = bound(1, 0), behind = std::min(bound(2, count), count);
  if (first > count || first > behind) return {};
  return TextRange{byte_of(text.bytes(), static_cast<std::size_t>(first)),
                   byte_of(text.bytes(), static_cast<std::size_t>(behind))};
}

bool begins_or_ends(Evaluator& evaluator, const Text& text, bool begins, CallArguments arguments) {
  const Parameters given(evaluator, begins ? "startswith" : "endswith", std::move(arguments), {"affix", "start", "end"});
  std::vector<Value> affixes{given.need(0)};
  if (const List* list = given.at(0).list(); list != nullptr && list->kind == ListKind::tuple) affixes = list->items;
  const auto span = span_of(evaluator, text, given);
  return std::ranges::any_of(affixes, [&](const Value& each) {
    const Text& affix = evaluator.need_text(each, begins ? "startswith" : "endswith");
    if (!span) return false;
    const std::string_view part = std::string_view(text.bytes()).substr(span->begin, span->end - span->begin);
    return begins ? part.starts_with(affix.bytes()) : part.ends_with(affix.bytes());
  });
}

Value position(Evaluator& evaluator, const Text& text, std::string_view name, CallArguments arguments) {
  const Parameters given(evaluator, name, std::move(arguments), {"sub", "start", "end"});
  const Text& part = evaluator.need_text(given.need(0), name);
  const auto span = span_of(evaluator, text, given);
  std::size_t found = std::string::npos;
  if (span) {
    const std::string_view within = std::string_view(text.bytes()).substr(span->begin, span->end - span->begin);
    found = name.starts_with('r') ? last_bytes(within, part.bytes()) : find_bytes(within, part.bytes());
  }
  if (found == std::string::npos) {
    if (name.ends_with("index")) evaluator.fail("substring not found");
    return -1;
  }
  return static_cast<std::int64_t>(count_characters(std::string_view(text.bytes()).substr(0, span->begin + found)));
}

// All characters are of a kind, and there are some.
template <class Is>
bool all_are(const Text& text, Is is) {
  for (std::size_t at = 0; at < text.size();) {
    if (!is(next_character(text.bytes(), at))) return false;
  }
  return !text.empty();
}

Value format(Evaluator& evaluator, const Text& text, const CallArguments& arguments) {
  Text out;
  std::int64_t next = 0;
  bool numbered = false;
  const std::string& bytes = text.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t found = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.append(text, at, found);
    if (found == bytes.size()) break;
    if (found + 1 < bytes.size() && bytes[found + 1] == bytes[found]) {
      out.append(text, found, found + 1);
      at = found + 2;
      continue;
    }
    const std::size_t end = bytes.find('}', found);
    if (bytes[found] == '}' || end == std::string::npos) evaluator.fail("a brace of a format has no partner");
    const std::string field = bytes.substr(found + 1, end - found - 1);
    at = end + 1;
    const Value* value = nullptr;
    const bool digits = field.size() < 10 && std::ranges::all_of(field, [](char c) { return c >= '0' && c <= '9'; });
    if (digits) {
      const std::int64_t index = field.empty() ? next++ : std::stoll(field);
      numbered = numbered || !field.empty();
      if (numbered && next > 0) evaluator.fail("a format numbers some of its fields");
      if (index < std::ssize(arguments.positional)) value = &arguments.positional[static_cast<std::size_t>(index)];
    } else {
      const auto named = std::ranges::find(arguments.named, field, [](const auto& each) { return each.first; });
      if (named != arguments.named.end()) value = &named->second;
    }
    if (value == nullptr) evaluator.fail(fmt::format("the format has no value for '{{{}}}'", field.substr(0, 40)));
    evaluator.charge_memory(value->weight());
    out.append(text_of(*value));
  }
  return evaluator.made(std::move(out));
}

Value text_method(Evaluator& evaluator, const Text& text, std::string_view name, CallArguments arguments) {
  evaluator.charge(text.size());
  const auto none = [&] { const Parameters given(evaluator, name, std::move(arguments), {}); };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const Parameters given(evaluator, name, std::move(arguments), {"chars"});
    return evaluator.made(stripped(evaluator, text, given.at(0), name != "rstrip", name != "lstrip"));
  }
  if (name == "split" || name == "rsplit") return split(evaluator, text, name, std::move(arguments));
  if (name == "splitlines") return lines(evaluator, text, std::move(arguments));
  if (name == "partition" || name == "rpartition") return partition(evaluator, text, name[0] == 'r', std::move(arguments));
  if (name == "lower") return none(), evaluator.made(lowered(text));
  if (name == "upper") return none(), evaluator.made(each_stretch_of(text, upper));
  if (name == "capitalize") return none(), evaluator.made(capitalized(text));
  if (name == "title") return none(), evaluator.made(titled(text, false));
  if (name == "startswith" || name == "endswith") return begins_or_ends(evaluator, text, name[0] == 's', std::move(arguments));
  if (name == "replace") {
    const Parameters given(evaluator, name, std::move(arguments), {"old", "new", "count"});
    const std::int64_t most = given.has(2) ? evaluator.need_whole(given.at(2), "count") : -1;
    return evaluator.made(
        replaced(evaluator, text, evaluator.need_text(given.need(0), name), evaluator.need_text(given.need(1), name), most));
  }
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex") {
    return position(evaluator, text, name, std::move(arguments));
  }
  if (name == "count") {
    const Parameters given(evaluator, name, std::move(arguments), {"sub"});
    const Text& part = evaluator.need_text(given.need(0), name);
    if (part.empty()) return static_cast<std::int64_t>(count_characters(text.bytes())) + 1;
    return std::ssize(pieces(text.bytes(), part.bytes(), kNoLimit)) - 1;
  }
  if (name == "join") {
    const Parameters given(evaluator, name, std::move(arguments), {"iterable"});
    Text out;
    bool first = true;
    for (const Value& item : evaluator.items_of(given.need(0))) {
      if (!first) out.append(text);
      first = false;
      evaluator.charge_memory(item.weight() + text.size());
      out.append(evaluator.need_text(item, "join"));
    }
    return evaluator.made(std::move(out));
  }
  if (name == "isdigit") return none(), all_are(text, is_digit);
  if (name == "isalpha") return none(), all_are(text, is_letter);
  if (name == "isalnum") return none(), all_are(text, [](char32_t c) { return is_letter(c) || is_numeric(c); });
  if (name == "isspace") return none(), all_are(text, is_space);
  if (name == "islower") return none(), has_case(text.bytes(), false);
  if (name == "isupper") return none(), has_case(text.bytes(), true);
  if (name == "removeprefix" || name == "removesuffix") {
    const Parameters given(evaluator, name, std::move(arguments), {"affix"});
    const std::string& affix = evaluator.need_text(given.need(0), name).bytes();
    if (name == "removeprefix") return evaluator.made(text.part(text.bytes().starts_with(affix) ? affix.size() : 0, text.size()));
    return evaluator.made(text.part(0, text.size() - (text.bytes().ends_with(affix) ? affix.size() : 0)));
  }
  if (name == "zfill") {
    const Parameters given(evaluator, name, std::move(arguments), {"width"});
    const std::int64_t width = evaluator.need_whole(given.need(0), name);
    const auto lacking = width - static_cast<std::int64_t>(count_characters(text.bytes()));
    if (lacking <= 0) return text;
    evaluator.charge_memory(static_cast<std::uint64_t>(lacking));
    const std::size_t sign = text.bytes().starts_with('-') || text.bytes().starts_with('+') ? 1 : 0;
    Text out = text.part(0, sign);
    out.append(std::string(static_cast<std::size_t>(lacking), '0'), Origin::of_template);
    out.append(text, sign, text.size());
    return evaluator.made(std::move(out));
  }
  if (name == "format") return format(evaluator, text, arguments);
  evaluator.fail(fmt::format("the method '{}' of a text is not computed", name));
}

Value dict_method(Evaluator& evaluator, const Value& self, std::string_view name, CallArguments arguments) {
  const Dict& dict = *self.dict();
  if (name == "get") {
    const Parameters given(evaluator, name, std::move(arguments), {"key", "default"});
    evaluator.charge(given.need(0).weight());
    const Value* found = dict.find(given.need(0));
    return found != nullptr ? *found : given.value(1, None{});
  }
  const Parameters given(evaluator, name, std::move(arguments), {});
  if (name == "copy") return self;
  std::vector<Value> values;
  for (const auto& [key, value] : dict.items()) {
    if (name == "items") {
      values.push_back(make_list({key, value}, ListKind::tuple));
    } else {
      values.push_back(name == "keys" ? key : value);
    }
  }
  return evaluator.made(make_list(std::move(values)));
}

Value list_method(Evaluator& evaluator, const Value& self, std::string_view name, CallArguments arguments) {
  const std::vector<Value>& items = self.list()->items;
  if (name == "copy") {
    const Parameters given(evaluator, name, std::move(arguments), {});
    return self;
  }
  const Parameters given(evaluator, name, std::move(arguments), {"value"});
  const Value& sought = given.need(0);
  evaluator.charge(self.weight());
  if (name == "count") return std::ranges::count_if(items, [&](const Value& each) { return equal(each, sought); });
  const auto found = std::ranges::find_if(items, [&](const Value& each) { return equal(each, sought); });
  if (found == items.end()) evaluator.fail("the value is not in the list");
  return found - items.begin();
}

Value loop_method(Evaluator& evaluator, LoopState& loop, std::string_view name, CallArguments arguments) {
  if (!arguments.named.empty()) evaluator.fail(fmt::format("loop.{} takes no names", name));
  if (name == "cycle") {
    if (arguments.positional.empty()) evaluator.fail("no items for cycling given");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  Value values = evaluator.made(make_list(std::move(arguments.positional), ListKind::tuple));
  evaluator.charge(values.weight());
  if (loop.changed && equal(*loop.changed, values)) return false;
  loop.changed = std::move(values);
  return true;
}

}  // namespace

Value Evaluator::method(const Value& self, std::string_view name, CallArguments arguments) {
  if (const Text* text = self.text()) return text_method(*this, *text, name, std::move(arguments));
  if (self.dict() != nullptr) return dict_method(*this, self, name, std::move(arguments));
  if (self.list() != nullptr) return list_method(*this, self, name, std::move(arguments));
  return loop_method(*this, **self.get<std::shared_ptr<LoopState>>(), name, std::move(arguments));
}

}  // namespace plimsoll::jinja
