// The filters of a template (after `|`).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>

#include "formats/jinja/evaluator.h"
#include "formats/jinja/json.h"
#include "formats/jinja/parameters.h"
#include "formats/jinja/text_functions.h"
#include "formats/jinja/unicode.h"
#include "formats/tokenizer/character.h"

namespace plimsoll::jinja {
namespace {

Value generator(const BuiltIn& call, std::vector<Value> items) {
  return call.evaluator.made(make_list(std::move(items), ListKind::generator));
}

// The value for a comparison without case.
Value without_case(Evaluator& evaluator, const Value& value) {
  if (value.text() == nullptr) return value;
  evaluator.charge(value.weight());
  return Text(lower(value.text()->bytes()));
}

// Sorts by keys, which are computed once for each item.
std::vector<Value> sorted(Evaluator& evaluator, std::vector<Value> items, bool reverse,
                          const std::function<Value(const Value&)>& key_of) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    Value key = key_of(item);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    evaluator.charge(0);
    const int order = evaluator.order(a.first, b.first, "<");
    return reverse ? order > 0 : order < 0;
  });
  for (std::size_t i = 0; i < keyed.size(); ++i) items[i] = std::move(keyed[i].second);
  return items;
}

Value tojson(BuiltIn call) {
  const Parameters given = call.take({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = given.flag(0, false);
  style.sort_keys = given.flag(3, false);
  if (const Value& indent = given.at(1); given.has(1) && !indent.is_none()) {
    constexpr std::int64_t kMost = 64;
    if (const Text* text = indent.text()) {
      style.indent = text->bytes();
    } else {
      style.indent = std::string(
          static_cast<std::size_t>(std::clamp<std::int64_t>(call.evaluator.need_whole(indent, "indent"), 0, kMost)), ' ');
    }
    style.between = ",";
  }
  if (const Value& separators = given.at(2); given.has(2) && !separators.is_none()) {
    const std::vector<Value> both = call.evaluator.items_of(separators);
    if (both.size() != 2) call.evaluator.fail("separators are two texts");
    style.between = call.evaluator.need_text(both[0], "separators").bytes();
    style.behind_key = call.evaluator.need_text(both[1], "separators").bytes();
  }
  return call.evaluator.made(to_json(call.evaluator, call.input, style));
}

Value length(BuiltIn call) {
  call.take({});
  const Value& value = call.input;
  if (value.is_undefined()) return 0;
  if (const Text* text = value.text()) {
    call.evaluator.charge(text->size());
    return static_cast<std::int64_t>(count_characters(text->bytes()));
  }
  if (const Dict* dict = value.dict()) return static_cast<std::int64_t>(dict->size());
  if (const auto* loop = value.get<std::shared_ptr<LoopState>>()) return std::ssize((*loop)->items);
  const List* list = value.list();
  if (list == nullptr || list->kind == ListKind::generator) {
    call.evaluator.fail(fmt::format("object of type '{}' has no len()", value.type()));
  }
  return std::ssize(list->items);
}

Value join(BuiltIn call) {
  const Parameters given = call.take({"d", "attribute"});
  call.evaluator.charge(given.at(0).weight());
  const Text between = text_of(given.at(0));
  Text out;
  bool first = true;
  for (const Value& item : call.evaluator.items_of(call.input)) {
    const Value value = given.has(1) && !given.at(1).is_none() ? call.evaluator.path(item, given.at(1)) : item;
    call.evaluator.charge_memory(value.weight() + between.size());
    if (!first) out.append(between);
    first = false;
    out.append(text_of(value));
  }
  return call.evaluator.made(std::move(out));
}

Value dictsort(BuiltIn call) {
  const Parameters given = call.take({"case_sensitive", "by", "reverse"});
  const Dict* dict = call.input.dict();
  if (dict == nullptr) call.evaluator.refuse(call.input, call.name);
  const std::string by = given.has(1) ? call.evaluator.need_text(given.at(1), "by").bytes() : "key";
  if (by != "key" && by != "value") call.evaluator.fail("You can only sort by either \"key\" or \"value\"");
  std::vector<Value> items;
  for (const auto& [key, value] : dict->items()) items.push_back(make_list({key, value}, ListKind::tuple));
  const bool cased = given.flag(0, false);
  return call.evaluator.made(make_list(sorted(call.evaluator, std::move(items), given.flag(2, false), [&](const Value& item) {
    const Value& key = item.list()->items[by == "key" ? 0 : 1];
    return cased ? key : without_case(call.evaluator, key);
  })));
}

Value sort(BuiltIn call) {
  const Parameters given = call.take({"reverse", "case_sensitive", "attribute"});
  const bool cased = given.flag(1, false);
  std::vector<Value> paths;  // attribute="a,b" sorts by several
  if (given.has(2) && given.at(2).text() != nullptr) {
    const std::string& names = given.at(2).text()->bytes();
    for (std::size_t begin = 0; begin <= names.size();) {
      const std::size_t end = std::min(names.find(',', begin), names.size());
      paths.emplace_back(Text(names.substr(begin, end - begin)));
      begin = end + 1;
    }
  } else if (given.has(2) && !given.at(2).is_none()) {
    paths.push_back(given.at(2));
  }
  const auto key = [&](const Value& item) {
    std::vector<Value> parts;
    for (const Value& path : paths) parts.push_back(call.evaluator.path(item, path));
    if (paths.empty()) parts.push_back(item);
    if (!cased) {
      for (Value& part : parts) part = without_case(call.evaluator, part);
    }
    return Value(make_list(std::move(parts)));
  };
  return call.evaluator.made(make_list(sorted(call.evaluator, call.evaluator.items_of(call.input), given.flag(0, false), key)));
}

Value least_or_most(BuiltIn call) {
  const bool most = call.name == "max";
  const Parameters given = call.take({"case_sensitive", "attribute"});
  std::optional<Value> best, best_key;
  for (const Value& item : call.evaluator.items_of(call.input)) {
    Value key = given.has(1) && !given.at(1).is_none() ? call.evaluator.path(item, given.at(1)) : item;
    if (!given.flag(0, false)) key = without_case(call.evaluator, key);
    const int order = best_key ? call.evaluator.order(key, *best_key, "<") : 0;
    if (best && !(most ? order > 0 : order < 0)) continue;
    best = item;
    best_key = std::move(key);
  }
  return best ? *best : call.evaluator.undefined("No aggregated item, sequence was empty.");
}

// map, select, reject, selectattr, rejectattr.

Value map(BuiltIn call) {
  CallArguments arguments = std::move(call.arguments);
  std::vector<Value> items;
  const auto named = [&](std::string_view name) {
    return std::ranges::find(arguments.named, name, [](const auto& each) { return each.first; });
  };
  if (arguments.positional.empty() && named("attribute") != arguments.named.end()) {
    const Parameters given(call.evaluator, call.name, std::move(arguments), {"attribute", "default"});
    for (const Value& item : call.evaluator.items_of(call.input)) {
      items.push_back(call.evaluator.path(item, given.at(0), given.at(1)));
    }
    return generator(call, std::move(items));
  }
  if (arguments.positional.empty()) call.evaluator.fail("map requires a filter argument");
  const std::string name = call.evaluator.need_text(arguments.positional[0], "map").bytes();
  arguments.positional.erase(arguments.positional.begin());
  for (const Value& item : call.evaluator.items_of(call.input)) {
    call.evaluator.charge(0);
    items.push_back(call.evaluator.filter(name, item, arguments));
  }
  return generator(call, std::move(items));
}

Value select(BuiltIn call) {
  const bool by_attribute = call.name.ends_with("attr"), keeps = call.name.starts_with("select");
  CallArguments arguments = std::move(call.arguments);
  const auto next = [&]() -> std::optional<Value> {
    if (arguments.positional.empty()) return {};
    Value value = std::move(arguments.positional.front());
    arguments.positional.erase(arguments.positional.begin());
    return value;
  };
  std::optional<Value> attribute;
  if (by_attribute && !(attribute = next())) call.evaluator.fail("Missing parameter for attribute name");
  const std::optional<Value> test = next();
  const std::string name = test ? call.evaluator.need_text(*test, call.name).bytes() : "";
  std::vector<Value> kept;
  for (const Value& item : call.evaluator.items_of(call.input)) {
    call.evaluator.charge(0);
    const Value value = attribute ? call.evaluator.path(item, *attribute) : item;
    const bool found = test ? call.evaluator.test(name, value, arguments) : is_true(value);
    if (found == keeps) kept.push_back(item);
  }
  return generator(call, std::move(kept));
}

// Numbers.

Value whole_number(BuiltIn call) {
  const Parameters given = call.take({"default", "base"});
  const Value fallback = given.value(0, 0);
  if (const Text* text = call.input.text()) {
    const std::string digits = stripped(call.evaluator, *text, None{}, true, true).bytes();
    const auto base = given.has(1) ? call.evaluator.need_whole(given.at(1), "base") : 10;
    if (digits.empty() || digits.size() > 64 || base < 2 || base > 36) return fallback;
    char* end = nullptr;
    errno = 0;
    const std::int64_t whole = std::strtoll(digits.c_str(), &end, static_cast<int>(base));
    if (end == digits.c_str() + digits.size() && errno == 0) return whole;
    const double real = std::strtod(digits.c_str(), &end);
    if (end != digits.c_str() + digits.size() || !(std::abs(real) < 9e18)) return fallback;
    return static_cast<std::int64_t>(real);
  }
  if (const double* real = call.input.get<double>()) {
    return std::abs(*real) < 9e18 ? Value(static_cast<std::int64_t>(*real)) : fallback;
  }
  if (call.input.is_undefined()) call.evaluator.refuse(call.input, "int");
  if (call.input.get<BigInteger>()) return call.input;
  return call.input.is_number() ? Value(call.evaluator.need_whole(call.input, "int")) : fallback;
}

Value real_number(BuiltIn call) {
  const Parameters given = call.take({"default"});
  const Value fallback = given.value(0, 0.0);
  if (const Text* text = call.input.text()) {
    const std::string digits = stripped(call.evaluator, *text, None{}, true, true).bytes();
    char* end = nullptr;
    if (digits.empty() || digits.size() > 400 || digits.find_first_of("xXpP") != std::string::npos) return fallback;
    const double real = std::strtod(digits.c_str(), &end);
    return end == digits.c_str() + digits.size() ? Value(real) : fallback;
  }
  if (call.input.is_undefined()) call.evaluator.refuse(call.input, "float");
  if (call.input.get<double>() != nullptr) return call.input;
  if (!call.input.is_number() || call.input.get<BigInteger>()) return fallback;
  return static_cast<double>(call.evaluator.need_whole(call.input, "float"));
}

// Sequences.

Value first_or_last(BuiltIn call) {
  call.take({});
  const bool last = call.name == "last";
  const List* list = call.input.list();
  if (last && list != nullptr && list->kind == ListKind::generator) call.evaluator.fail("'generator' object is not reversible");
  const std::vector<Value> items = call.evaluator.items_of(call.input);
  if (items.empty()) return call.evaluator.undefined(fmt::format("No {} item, sequence was empty.", call.name));
  return last ? items.back() : items.front();
}

Value reversed(BuiltIn call) {
  call.take({});
  std::vector<Value> items = call.evaluator.items_of(call.input);
  std::ranges::reverse(items);
  if (call.input.text() == nullptr) return generator(call, std::move(items));
  Text out;
  for (const Value& item : items) out.append(*item.text());
  return call.evaluator.made(std::move(out));
}

Value pairs(BuiltIn call) {
  call.take({});
  const Dict* dict = call.input.dict();
  if (dict == nullptr && !call.input.is_undefined()) call.evaluator.fail("Can only get item pairs from a mapping.");
  std::vector<Value> items;
  if (dict != nullptr) {
    for (const auto& [key, value] : dict->items()) items.push_back(make_list({key, value}, ListKind::tuple));
  }
  return generator(call, std::move(items));
}

// Texts.

Value indented(BuiltIn call) {
  const Parameters given = call.take({"width", "first", "blank"});
  const Text text = call.text();
  Text indention(given.has(0) && given.at(0).text() != nullptr
                     ? *given.at(0).text()
                     : Text(std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                            given.has(0) ? call.evaluator.need_whole(given.at(0), "indent") : 4, 0, 1000)),
                                        ' ')));
  std::vector<TextRange> lines = line_ranges(text.bytes(), false);
  // Like Jinja: a line end is added before the text is split into lines.
  if (text.empty() || (!lines.empty() && lines.back().end < text.size())) lines.push_back({text.size(), text.size()});
  Text out;
  if (given.flag(1, false)) out.append(indention);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      call.evaluator.charge_memory(indention.size());
      out.append("\n", Origin::of_template);
      if (lines[i].begin < lines[i].end || given.flag(2, false)) out.append(indention);
    }
    out.append(text, lines[i].begin, lines[i].end);
  }
  return call.evaluator.made(std::move(out));
}

Value formatted(BuiltIn call) {
  if (!call.arguments.named.empty()) call.evaluator.fail("%(name)s is not supported");
  const Value values = call.evaluator.made(make_list(std::move(call.arguments.positional), ListKind::tuple));
  return call.evaluator.made(call.evaluator.percent(call.text(), values));
}

Value replace(BuiltIn call) {
  const Parameters given = call.take({"old", "new", "count"});
  call.evaluator.charge(given.need(0).weight() + given.need(1).weight());
  const std::int64_t most = given.has(2) && !given.at(2).is_none() ? call.evaluator.need_whole(given.at(2), "count") : -1;
  return call.evaluator.made(replaced(call.evaluator, call.text(), text_of(given.at(0)), text_of(given.at(1)), most));
}

Value by_default(BuiltIn call) {
  const Parameters given = call.take({"default_value", "boolean"});
  const bool missing = call.input.is_undefined() || (given.flag(1, false) && !is_true(call.input));
  return missing ? given.value(0, Text()) : call.input;
}

using FilterFunction = Value (*)(BuiltIn);
constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
    {"capitalize", changed<capitalized>},
    {"count", length},
    {"d", by_default},
    {"default", by_default},
    {"dictsort", dictsort},
    {"first", first_or_last},
    {"float", real_number},
    {"format", formatted},
    {"indent", indented},
    {"int", whole_number},
    {"items", pairs},
    {"join", join},
    {"last", first_or_last},
    {"length", length},
    {"list",
     [](BuiltIn call) {
       call.take({});
       return call.evaluator.made(make_list(call.evaluator.items_of(call.input)));
     }},
    {"lower", changed<lowered>},
    {"map", map},
    {"max", least_or_most},
    {"min", least_or_most},
    {"reject", select},
    {"rejectattr", select},
    {"replace", replace},
    {"reverse", reversed},
    {"safe", changed<[](const Text& text) { return text; }>},
    {"select", select},
    {"selectattr", select},
    {"sort", sort},
    {"string", changed<[](const Text& text) { return text; }>},
    {"title", changed<[](const Text& text) { return titled(text, true); }>},
    {"tojson", tojson},
    {"trim",
     [](BuiltIn call) {
       const Parameters given = call.take({"chars"});
       return call.evaluator.made(stripped(call.evaluator, call.text(), given.at(0), true, true));
     }},
    {"upper", changed<uppered>},
};

}  // namespace

Value Evaluator::filter(const std::string& name, const Value& input, CallArguments arguments) {
  const auto* found = std::ranges::find(kFilters, name, [](const auto& each) { return each.first; });
  if (found == std::end(kFilters)) fail(fmt::format("No filter named '{}'.", name));
  return found->second({*this, found->first, input, std::move(arguments)});
}

}  // namespace plimsoll::jinja
