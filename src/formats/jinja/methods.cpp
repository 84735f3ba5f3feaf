// The methods of texts, lists, dicts and of `loop`, as in Python. Line ends are those of str.splitlines().
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>

#include "formats/jinja/evaluator.h"
#include "formats/jinja/parameters.h"
#include "formats/jinja/text_functions.h"
#include "formats/jinja/unicode.h"
#include "formats/tokenizer/character.h"

namespace plimsoll::jinja {

struct NamedMethod {
  std::string_view name;
  Value (*call)(BuiltIn);
};

namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

Value texts(Evaluator& evaluator, const Text& text, const std::vector<TextRange>& ranges, ListKind kind = ListKind::list) {
  std::vector<Value> parts;
  for (const TextRange& range : ranges) parts.push_back(evaluator.made(text.part(range.begin, range.end)));
  return evaluator.made(make_list(std::move(parts), kind));
}

bool is_no_space(char32_t c) { return !is_space(c); }

// Splits at white space, without empty parts. The last part has the rest.
std::vector<TextRange> words(std::string_view text, std::int64_t most) {
  std::vector<TextRange> parts;
  for (std::size_t at = space_end(text, 0); at < text.size();) {
    const std::size_t end = most-- == 0 ? space_begin(text, text.size(), at) : run_end(text, at, is_no_space);
    parts.push_back({at, end});
    at = space_end(text, end);
  }
  return parts;
}

// The same from the end; the first part has the rest.
std::vector<TextRange> last_words(std::string_view text, std::int64_t most) {
  std::vector<TextRange> parts;
  for (std::size_t end = space_begin(text, text.size(), 0); end > 0;) {
    const std::size_t begin = most-- == 0 ? space_end(text, 0) : run_begin(text, end, 0, is_no_space);
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

Value split(BuiltIn call) {
  const Text& text = *call.input.text();
  const Parameters given = call.take({"sep", "maxsplit"});
  std::int64_t most = given.has(1) ? call.evaluator.need_whole(given.at(1), "maxsplit") : -1;
  if (most < 0) most = kNoLimit;
  const bool last = call.name == "rsplit";
  if (!given.has(0) || given.at(0).is_none()) {
    return texts(call.evaluator, text, last ? last_words(text.bytes(), most) : words(text.bytes(), most));
  }
  const Text& separator = call.evaluator.need_text(given.at(0), "split");
  if (separator.empty()) call.evaluator.fail("empty separator");
  return texts(call.evaluator, text,
               last ? last_pieces(text.bytes(), separator.bytes(), most) : pieces(text.bytes(), separator.bytes(), most));
}

Value partition(BuiltIn call) {
  const Text& text = *call.input.text();
  const bool last = call.name == "rpartition";
  const Parameters given = call.take({"sep"});
  const Text& separator = call.evaluator.need_text(given.need(0), "partition");
  if (separator.empty()) call.evaluator.fail("empty separator");
  const std::size_t size = text.size();
  const std::size_t at = last ? last_bytes(text.bytes(), separator.bytes()) : find_bytes(text.bytes(), separator.bytes());
  if (at == std::string::npos) {
    const std::vector<TextRange> first{{0, size}, {size, size}, {size, size}}, behind{{0, 0}, {0, 0}, {0, size}};
    return texts(call.evaluator, text, last ? behind : first, ListKind::tuple);
  }
  return texts(call.evaluator, text, {{0, at}, {at, at + separator.size()}, {at + separator.size(), size}}, ListKind::tuple);
}

// The bytes of a text between the arguments `start` and `end` of a method; absent if `start` is past the end.
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

std::string_view part_of(const Text& text, TextRange range) {
  return std::string_view(text.bytes()).substr(range.begin, range.end - range.begin);
}

Value begins_or_ends(BuiltIn call) {
  const Text& text = *call.input.text();
  const bool begins = call.name == "startswith";
  const Parameters given = call.take({"affix", "start", "end"});
  std::vector<Value> affixes{given.need(0)};
  if (const List* list = given.at(0).list(); list != nullptr && list->kind == ListKind::tuple) affixes = list->items;
  const auto span = span_of(call.evaluator, text, given);
  return std::ranges::any_of(affixes, [&](const Value& each) {
    const Text& affix = call.evaluator.need_text(each, call.name);
    if (!span) return false;
    return begins ? part_of(text, *span).starts_with(affix.bytes()) : part_of(text, *span).ends_with(affix.bytes());
  });
}

Value position(BuiltIn call) {
  const Text& text = *call.input.text();
  const Parameters given = call.take({"sub", "start", "end"});
  const Text& part = call.evaluator.need_text(given.need(0), call.name);
  std::size_t found = std::string::npos;
  const auto span = span_of(call.evaluator, text, given);
  if (span) {
    const std::string_view within = part_of(text, *span);
    found = call.name.starts_with('r') ? last_bytes(within, part.bytes()) : find_bytes(within, part.bytes());
  }
  if (found == std::string::npos) {
    if (call.name.ends_with("index")) call.evaluator.fail("substring not found");
    return -1;
  }
  return static_cast<std::int64_t>(count_characters(part_of(text, {0, span->begin + found})));
}

// True if the text is not empty and all of its characters are of a kind.
template <bool (*is)(char32_t)>
Value all_are(BuiltIn call) {
  call.take({});
  const Text& text = *call.input.text();
  return !text.empty() && run_end(text.bytes(), 0, is) == text.size();
}

bool is_letter_or_number(char32_t c) { return is_letter(c) || is_numeric(c); }

Value format(BuiltIn call) {
  const Text& text = *call.input.text();
  const CallArguments& arguments = call.arguments;
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
    if (bytes[found] == '}' || end == std::string::npos) call.evaluator.fail("a brace of a format has no partner");
    const std::string field = bytes.substr(found + 1, end - found - 1);
    at = end + 1;
    const Value* value = nullptr;
    const bool digits = field.size() < 10 && std::ranges::all_of(field, [](char c) { return c >= '0' && c <= '9'; });
    if (digits) {
      const std::int64_t index = field.empty() ? next++ : std::stoll(field);
      numbered = numbered || !field.empty();
      if (numbered && next > 0) call.evaluator.fail("a format numbers some of its fields");
      if (index < std::ssize(arguments.positional)) value = &arguments.positional[static_cast<std::size_t>(index)];
    } else {
      const auto named = std::ranges::find(arguments.named, field, [](const auto& each) { return each.first; });
      if (named != arguments.named.end()) value = &named->second;
    }
    if (value == nullptr) call.evaluator.fail(fmt::format("the format has no value for '{{{}}}'", field.substr(0, 40)));
    call.evaluator.charge_memory(value->weight());
    out.append(text_of(*value));
  }
  return call.evaluator.made(std::move(out));
}

Value strip(BuiltIn call) {
  const Parameters given = call.take({"chars"});
  const bool left = call.name != "rstrip", right = call.name != "lstrip";
  return call.evaluator.made(stripped(call.evaluator, *call.input.text(), given.at(0), left, right));
}

Value replace(BuiltIn call) {
  const Parameters given = call.take({"old", "new", "count"});
  const std::int64_t most = given.has(2) ? call.evaluator.need_whole(given.at(2), "count") : -1;
  const Text &from = call.evaluator.need_text(given.need(0), call.name), &to = call.evaluator.need_text(given.need(1), call.name);
  return call.evaluator.made(replaced(call.evaluator, *call.input.text(), from, to, most));
}

Value count_parts(BuiltIn call) {
  const std::string& text = call.input.text()->bytes();
  const Parameters given = call.take({"sub"});
  const Text& part = call.evaluator.need_text(given.need(0), call.name);
  if (part.empty()) return static_cast<std::int64_t>(count_characters(text)) + 1;
  return std::ssize(pieces(text, part.bytes(), kNoLimit)) - 1;
}

Value join(BuiltIn call) {
  const Text& between = *call.input.text();
  const Parameters given = call.take({"iterable"});
  Text out;
  bool first = true;
  for (const Value& item : call.evaluator.items_of(given.need(0))) {
    if (!first) out.append(between);
    first = false;
    call.evaluator.charge_memory(item.weight() + between.size());
    out.append(call.evaluator.need_text(item, "join"));
  }
  return call.evaluator.made(std::move(out));
}

Value without_affix(BuiltIn call) {
  const Text& text = *call.input.text();
  const Parameters given = call.take({"affix"});
  const std::string& affix = call.evaluator.need_text(given.need(0), call.name).bytes();
  const bool begin = call.name == "removeprefix";
  const std::size_t size = (begin ? text.bytes().starts_with(affix) : text.bytes().ends_with(affix)) ? affix.size() : 0;
  return call.evaluator.made(text.part(begin ? size : 0, text.size() - (begin ? 0 : size)));
}

Value with_zeros(BuiltIn call) {
  const Text& text = *call.input.text();
  const Parameters given = call.take({"width"});
  const std::int64_t width = call.evaluator.need_whole(given.need(0), call.name);
  const auto lacking = width - static_cast<std::int64_t>(count_characters(text.bytes()));
  if (lacking <= 0) return text;
  call.evaluator.charge_memory(static_cast<std::uint64_t>(lacking));
  const std::size_t sign = text.bytes().starts_with('-') || text.bytes().starts_with('+') ? 1 : 0;
  Text out = text.part(0, sign);
  out.append(std::string(static_cast<std::size_t>(lacking), '0'), Origin::of_template);
  out.append(text, sign, text.size());
  return call.evaluator.made(std::move(out));
}

template <bool upper>
Value in_case(BuiltIn call) {
  call.take({});
  return has_case(call.input.text()->bytes(), upper);
}

constexpr NamedMethod kTextMethods[] = {
    {"capitalize", changed<capitalized>},
    {"count", count_parts},
    {"endswith", begins_or_ends},
    {"find", position},
    {"format", format},
    {"index", position},
    {"isalnum", all_are<is_letter_or_number>},
    {"isalpha", all_are<is_letter>},
    {"isdigit", all_are<is_digit>},
    {"islower", in_case<false>},
    {"isspace", all_are<is_space>},
    {"isupper", in_case<true>},
    {"join", join},
    {"lower", changed<lowered>},
    {"lstrip", strip},
    {"partition", partition},
    {"removeprefix", without_affix},
    {"removesuffix", without_affix},
    {"replace", replace},
    {"rfind", position},
    {"rindex", position},
    {"rpartition", partition},
    {"rsplit", split},
    {"rstrip", strip},
    {"split", split},
    {"splitlines",
     [](BuiltIn call) {
       const Parameters given = call.take({"keepends"});
       const Text& text = *call.input.text();
       return texts(call.evaluator, text, line_ranges(text.bytes(), given.flag(0, false)));
     }},
    {"startswith", begins_or_ends},
    {"strip", strip},
    {"title", changed<[](const Text& text) { return titled(text, false); }>},
    {"upper", changed<uppered>},
    {"zfill", with_zeros},
};

Value copy(BuiltIn call) {
  call.take({});
  return call.input;
}

Value parts_of_dict(BuiltIn call) {
  call.take({});
  std::vector<Value> values;
  for (const auto& [key, value] : call.input.dict()->items()) {
    values.push_back(call.name == "items" ? make_list({key, value}, ListKind::tuple) : call.name == "keys" ? key : value);
  }
  return call.evaluator.made(make_list(std::move(values)));
}

constexpr NamedMethod kDictMethods[] = {{"copy", copy},
                                        {"get",
                                         [](BuiltIn call) {
                                           const Parameters given = call.take({"key", "default"});
                                           call.evaluator.charge(given.need(0).weight());
                                           const Value* found = call.input.dict()->find(given.need(0));
                                           return found != nullptr ? *found : given.value(1, None{});
                                         }},
                                        {"items", parts_of_dict},
                                        {"keys", parts_of_dict},
                                        {"values", parts_of_dict}};

Value seek(BuiltIn call) {
  const std::vector<Value>& items = call.input.list()->items;
  const Parameters given = call.take({"value"});
  const auto is_sought = [&, &sought = given.need(0)](const Value& each) { return equal(each, sought); };
  call.evaluator.charge(call.input.weight());
  if (call.name == "count") return std::ranges::count_if(items, is_sought);
  const auto found = std::ranges::find_if(items, is_sought);
  if (found == items.end()) call.evaluator.fail("the value is not in the list");
  return found - items.begin();
}

constexpr NamedMethod kListMethods[] = {{"copy", copy}, {"count", seek}, {"index", seek}};

LoopState& loop_of(const BuiltIn& call) {
  if (!call.arguments.named.empty()) call.evaluator.fail(fmt::format("loop.{} takes no names", call.name));
  return **call.input.get<std::shared_ptr<LoopState>>();
}

constexpr NamedMethod kLoopMethods[] = {
    {"changed",
     [](BuiltIn call) -> Value {
       LoopState& loop = loop_of(call);
       Value values = call.evaluator.made(make_list(std::move(call.arguments.positional), ListKind::tuple));
       call.evaluator.charge(values.weight());
       if (loop.changed && equal(*loop.changed, values)) return false;
       loop.changed = std::move(values);
       return true;
     }},
    {"cycle",
     [](BuiltIn call) {
       const LoopState& loop = loop_of(call);
       const std::vector<Value>& items = call.arguments.positional;
       if (items.empty()) call.evaluator.fail("no items for cycling given");
       return items[loop.index % items.size()];
     }},
};

std::span<const NamedMethod> methods_of(const Value& value) {
  if (value.text() != nullptr) return kTextMethods;
  if (value.dict() != nullptr) return kDictMethods;
  if (value.list() != nullptr) return kListMethods;
  if (value.get<std::shared_ptr<LoopState>>() != nullptr) return kLoopMethods;
  return {};
}

}  // namespace

const NamedMethod* method_of(const Value& value, std::string_view name) {
  const std::span<const NamedMethod> methods = methods_of(value);
  const auto found = std::ranges::find(methods, name, &NamedMethod::name);
  return found != methods.end() ? &*found : nullptr;
}

Value Evaluator::method(const Method& method, CallArguments arguments) {
  if (const Text* text = method.self.text()) charge(text->size());
  return method.method->call({*this, method.method->name, method.self, std::move(arguments)});
}

}  // namespace plimsoll::jinja
