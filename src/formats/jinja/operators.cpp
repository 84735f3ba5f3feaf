// Operators on values, and access to the parts of a value.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

#include "formats/jinja/evaluator.h"
#include "formats/jinja/text_functions.h"
#include "formats/jinja/unicode.h"
#include "formats/tokenizer/character.h"

namespace plimsoll::jinja {
namespace {

std::optional<std::int64_t> whole(const Value& value) {
  if (const bool* truth = value.get<bool>()) return *truth ? 1 : 0;
  const auto* number = value.get<std::int64_t>();
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

std::optional<double> real(const Value& value) {
  if (const auto number = whole(value)) return static_cast<double>(*number);
  const auto* number = value.get<double>();
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

// Absent if the result exceeds 64 bits.
std::optional<std::int64_t> whole_result(BinaryKind kind, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (kind) {
    case BinaryKind::add: return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case BinaryKind::subtract: return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case BinaryKind::multiply: return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case BinaryKind::floor_divide:
      if (b == -1) return whole_result(BinaryKind::subtract, 0, a);
      return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
    case BinaryKind::modulo:
      if (b == -1) return 0;
      return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    case BinaryKind::power:
      result = 1;
      if (a == 0 || a == 1) return b == 0 ? 1 : a;
      if (a == -1) return b % 2 == 0 ? 1 : -1;
      for (; b > 0; --b) {
        if (__builtin_mul_overflow(result, a, &result)) return {};
      }
      return result;
    case BinaryKind::divide:
    case BinaryKind::logical_and:
    case BinaryKind::logical_or: break;
  }
  return {};
}

double real_result(BinaryKind kind, double a, double b) {
  switch (kind) {
    case BinaryKind::add: return a + b;
    case BinaryKind::subtract: return a - b;
    case BinaryKind::multiply: return a * b;
    case BinaryKind::divide: return a / b;
    case BinaryKind::floor_divide: return std::floor(a / b);
    case BinaryKind::modulo: return a - b * std::floor(a / b);
    case BinaryKind::power: return std::pow(a, b);
    case BinaryKind::logical_and:
    case BinaryKind::logical_or: break;
  }
  return 0;
}

bool divides(BinaryKind kind) {
  return kind == BinaryKind::divide || kind == BinaryKind::floor_divide || kind == BinaryKind::modulo;
}

}  // namespace

Value Evaluator::binary(BinaryKind kind, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) refuse(*side, symbol(kind));
    if (side->get<BigInteger>()) fail("a number has more than 64 bits and can only be shown");
  }
  if (const auto a = real(left), b = real(right); a && b) {
    if (divides(kind) && *b == 0) fail("division by zero");
    const auto x = whole(left), y = whole(right);
    if (x && y && kind != BinaryKind::divide && (kind != BinaryKind::power || *y >= 0)) {
      const auto result = whole_result(kind, *x, *y);
      if (!result) fail("a number has more than 64 bits");
      return *result;
    }
    return real_result(kind, *a, *b);
  }
  if (kind == BinaryKind::modulo && left.text() != nullptr) return made(percent(*left.text(), right));
  if (kind == BinaryKind::add && left.text() != nullptr && right.text() != nullptr) {
    charge(left.text()->size() + right.text()->size());
    Text text = *left.text();
    text.append(*right.text());
    return made(std::move(text));
  }
  if (kind == BinaryKind::add && left.list() != nullptr && right.list() != nullptr && left.list()->kind == right.list()->kind &&
      left.list()->kind != ListKind::generator) {
    std::vector<Value> items = items_of(left);
    const std::vector<Value> more = items_of(right);
    items.insert(items.end(), more.begin(), more.end());
    return made(make_list(std::move(items), left.list()->kind));
  }
  if (kind == BinaryKind::multiply && (whole(left) || whole(right))) {
    const Value& many = whole(left) ? right : left;
    const std::int64_t times = std::max<std::int64_t>(0, whole(left) ? *whole(left) : *whole(right));
    const auto check = [&](std::size_t size) {
      std::int64_t total = 0;
      if (__builtin_mul_overflow(static_cast<std::int64_t>(size), times, &total)) fail("a value is too long");
      charge_memory(static_cast<std::uint64_t>(total));
    };
    if (const Text* text = many.text()) {
      check(text->size());
      Text out;
      for (std::int64_t i = 0; !text->empty() && i < times; ++i) out.append(*text);
      return made(std::move(out));
    }
    if (const List* list = many.list(); list != nullptr && list->kind != ListKind::generator) {
      check(list->items.size() * sizeof(Value));
      std::vector<Value> items;
      for (std::int64_t i = 0; !list->items.empty() && i < times; ++i) {
        items.insert(items.end(), list->items.begin(), list->items.end());
      }
      return made(make_list(std::move(items), list->kind));
    }
  }
  fail(fmt::format("unsupported operand types for {}: '{}' and '{}'", symbol(kind), left.type(), right.type()));
}

int Evaluator::order(const Value& left, const Value& right, std::string_view what) {
  const auto sign = [](auto a, auto b) { return a < b ? -1 : b < a ? 1 : 0; };
  if (const auto x = whole(left), y = whole(right); x && y) return sign(*x, *y);
  if (const auto a = real(left), b = real(right); a && b) return sign(*a, *b);
  if (left.text() != nullptr && right.text() != nullptr) {
    charge(std::min(left.text()->size(), right.text()->size()));
    const int order = left.text()->bytes().compare(right.text()->bytes());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (left.list() != nullptr && right.list() != nullptr && left.list()->kind == right.list()->kind) {
    const std::vector<Value>&a = left.list()->items, &b = right.list()->items;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      charge(std::min(a[i].weight(), b[i].weight()));
      if (!equal(a[i], b[i])) return order(a[i], b[i], what);
    }
    return sign(a.size(), b.size());
  }
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) refuse(*side, what);
  }
  fail(fmt::format("'{}' is not supported between '{}' and '{}'", what, left.type(), right.type()));
}

bool Evaluator::compare(CompareKind kind, const Value& left, const Value& right) {
  switch (kind) {
    case CompareKind::equal:
    case CompareKind::unequal:
      charge(std::min(left.weight(), right.weight()));
      return equal(left, right) == (kind == CompareKind::equal);
    case CompareKind::less: return order(left, right, symbol(kind)) < 0;
    case CompareKind::less_equal: return order(left, right, symbol(kind)) <= 0;
    case CompareKind::greater: return order(left, right, symbol(kind)) > 0;
    case CompareKind::greater_equal: return order(left, right, symbol(kind)) >= 0;
    case CompareKind::in:
    case CompareKind::not_in: break;
  }
  return contains(right, left) == (kind == CompareKind::in);
}

bool Evaluator::contains(const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    const Text* part = item.text();
    if (part == nullptr) fail(fmt::format("'in <string>' requires string as left operand, not {}", item.type()));
    charge(text->size());
    return find_bytes(text->bytes(), part->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    charge(item.weight());
    return dict->find(item) != nullptr;
  }
  if (container.list() == nullptr && !container.is_undefined()) {
    fail(fmt::format("argument of type '{}' is not iterable", container.type()));
  }
  for (const Value& each : items_of(container)) {
    charge(std::min(each.weight(), item.weight()));
    if (equal(each, item)) return true;
  }
  return false;
}

// Parts of values.

namespace {

// True for methods that would change the value.
bool changes(const Value& value, std::string_view name) {
  constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::string_view kList[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  if (value.dict() != nullptr) return std::ranges::find(kDict, name) != std::end(kDict);
  return value.list() != nullptr && std::ranges::find(kList, name) != std::end(kList);
}

std::optional<Value> loop_part(const LoopState& loop, std::string_view name) {
  const auto count = static_cast<std::int64_t>(loop.items.size()), at = static_cast<std::int64_t>(loop.index);
  if (name == "index") return at + 1;
  if (name == "index0") return at;
  if (name == "first") return at == 0;
  if (name == "last") return at + 1 == count;
  if (name == "length") return count;
  if (name == "revindex") return count - at;
  if (name == "revindex0") return count - at - 1;
  if (name == "depth") return static_cast<std::int64_t>(loop.depth);
  if (name == "depth0") return static_cast<std::int64_t>(loop.depth) - 1;
  const auto absent = [](const char* why) { return Value(Undefined{std::make_shared<const std::string>(why)}); };
  if (name == "previtem") return at > 0 ? loop.items[loop.index - 1] : absent("there is no previous item");
  if (name == "nextitem") return at + 1 < count ? loop.items[loop.index + 1] : absent("there is no next item");
  return {};
}

std::string object_name(const Value& value) { return value.is_none() ? "None" : fmt::format("{} object", value.type()); }

}  // namespace

// The part of a value with a name, except for the keys of a dict.
std::optional<Value> Evaluator::named_part(const Value& object, const std::string& name) const {
  if (changes(object, name)) return undefined(fmt::format("access to '{}' of a {} is unsafe", name, object.type()));
  if (const NamedMethod* known = method_of(object, name)) return std::make_shared<const Callable>(Method{object, known});
  if (NameSpace* const* space = object.get<NameSpace*>()) {
    const auto found = (*space)->names.find(name);
    return found != (*space)->names.end() ? std::optional(found->second) : std::nullopt;
  }
  if (const auto* loop = object.get<std::shared_ptr<LoopState>>()) return loop_part(**loop, name);
  return {};
}

Value Evaluator::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) refuse(object, name);
  if (auto part = named_part(object, name)) return *std::move(part);
  if (const Dict* dict = object.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
}

Value Evaluator::item(const Value& object, const Value& index) {
  if (object.is_undefined()) refuse(object, "an index");
  if (const Dict* dict = object.dict()) {
    charge(index.weight());
    if (const Value* found = dict->find(index)) return *found;
  }
  const auto number = whole(index);
  // A number below 0 counts from the end.
  const auto place = [&](std::size_t size) -> std::optional<std::size_t> {
    const std::int64_t at = *number < 0 ? *number + static_cast<std::int64_t>(size) : *number;
    return at >= 0 && at < static_cast<std::int64_t>(size) ? std::optional(static_cast<std::size_t>(at)) : std::nullopt;
  };
  if (const List* list = object.list(); list != nullptr && number && list->kind != ListKind::generator) {
    if (const auto at = place(list->items.size())) return list->items[*at];
  }
  if (const Text* text = object.text(); text != nullptr && number) {
    charge(text->size());
    if (const auto at = place(count_characters(text->bytes()))) {
      const std::size_t begin = byte_of(text->bytes(), *at);
      std::size_t end = begin;
      next_character(text->bytes(), end);
      return made(text->part(begin, end));
    }
  }
  if (const Text* name = index.text()) {
    if (auto part = named_part(object, name->bytes())) return *std::move(part);
    return undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name->bytes().substr(0, 80)));
  }
  charge(index.weight());
  return undefined(fmt::format("{} has no element {}", object_name(object), repr_of(index).bytes().substr(0, 80)));
}

Value Evaluator::slice(const Value& object, const Value& first, const Value& behind, const Value& stride) {
  if (object.is_undefined()) refuse(object, "a slice");
  const Text* text = object.text();
  const List* list = object.list();
  const bool sliced = text != nullptr || (list != nullptr && list->kind != ListKind::generator);
  const auto bound = [](const Value& value) { return value.is_none() || whole(value); };
  if (!sliced || !bound(first) || !bound(behind) || !bound(stride)) {
    fail(fmt::format("'{}' has no such slice", object_name(object)));
  }
  if (text != nullptr) charge(text->size());
  const auto size = static_cast<std::int64_t>(text != nullptr ? count_characters(text->bytes()) : list->items.size());
  const std::int64_t step = whole(stride).value_or(1);
  if (step == 0) fail("slice step cannot be zero");
  const auto clipped = [&](const Value& value, std::int64_t fallback) {
    if (value.is_none()) return fallback;
    std::int64_t at = *whole(value);
    if (at < 0) at = at < -size ? -1 : at + size;
    return std::clamp<std::int64_t>(at, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
  };
  const std::int64_t begin = clipped(first, step > 0 ? 0 : size - 1), end = clipped(behind, step > 0 ? size : -1);
  if (text != nullptr && step == 1) {
    if (begin >= end) return Text();
    const std::size_t from = byte_of(text->bytes(), static_cast<std::size_t>(begin));
    const std::size_t to = from + byte_of(std::string_view(text->bytes()).substr(from), static_cast<std::size_t>(end - begin));
    return made(text->part(from, to));
  }
  const std::vector<Value> items = items_of(object);
  std::vector<Value> taken;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    taken.push_back(items[static_cast<std::size_t>(at)]);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  if (list != nullptr) return made(make_list(std::move(taken), list->kind));
  Text out;
  for (const Value& item : taken) out.append(*item.text());
  return made(std::move(out));
}

Value Evaluator::path(const Value& value, const Value& attribute, const Value& fallback) {
  const auto part_of = [&](const Value& object, const Value& part) {
    Value found = item(object, part);
    return found.is_undefined() && !fallback.is_undefined() && !fallback.is_none() ? fallback : found;
  };
  if (attribute.text() == nullptr) return part_of(value, attribute);
  Value at = value;
  const std::string& whole_path = attribute.text()->bytes();
  charge(whole_path.size());
  for (std::size_t begin = 0; begin <= whole_path.size();) {
    const std::size_t end = std::min(whole_path.find('.', begin), whole_path.size());
    const std::string part = whole_path.substr(begin, end - begin);
    const bool digits =
        !part.empty() && part.size() < 18 && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    at = part_of(at, digits ? Value(static_cast<std::int64_t>(std::stoll(part))) : Value(Text(part)));
    begin = end + 1;
  }
  return at;
}

// printf's %s, %r, %d, %i, %f, %x and %%, with flags and widths as Python has them.
Text Evaluator::percent(const Text& format, const Value& arguments) {
  std::vector<Value> values;
  if (const List* list = arguments.list(); list != nullptr && list->kind == ListKind::tuple) {
    values = list->items;
  } else {
    values.push_back(arguments);
  }
  const std::string& bytes = format.bytes();
  Text out;
  std::size_t used = 0, done = 0;
  for (std::size_t at = bytes.find('%'); at != std::string::npos; at = bytes.find('%', done)) {
    out.append(format, done, at);
    const std::size_t kind_at = bytes.find_first_not_of("-+ 0#123456789.", at + 1);
    if (kind_at == std::string::npos) fail("incomplete format");
    const char kind = bytes[kind_at];
    done = kind_at + 1;
    if (kind == '%') {
      out.append("%", Origin::of_template);
      continue;
    }
    const std::string flags = bytes.substr(at + 1, kind_at - at - 1);
    if (kind == '(') fail("%(name)s is not supported");
    if (used >= values.size()) fail("not enough arguments for format string");
    const Value& value = values[used++];
    charge_memory(value.weight());
    if (kind == 's' || kind == 'r') {
      if (!flags.empty()) fail(fmt::format("the format %{}{} is not supported", flags.substr(0, 40), kind));
      out.append(kind == 's' ? text_of(value) : repr_of(value));
      continue;
    }
    if (flags.size() > 8 || std::ranges::count(flags, '.') > 1) fail("a format is too wide");
    std::array<char, 512> buffer{};
    int size = -1;
    if (std::string_view("dixX").find(kind) != std::string_view::npos && real(value)) {
      const std::string pattern = "%" + flags + "ll" + kind;
      if (std::abs(*real(value)) >= 9e18 && !whole(value)) fail("a number has more than 64 bits");
      const long long number = whole(value) ? *whole(value) : static_cast<long long>(std::trunc(*real(value)));
      size = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), number);
    } else if (std::string_view("feEgG").find(kind) != std::string_view::npos && real(value)) {
      size = std::snprintf(buffer.data(), buffer.size(), ("%" + flags + kind).c_str(), *real(value));
    } else {
      fail(fmt::format("the format %{} does not take {}", kind, value.type()));
    }
    if (size < 0 || static_cast<std::size_t>(size) >= buffer.size()) fail("a format is too wide");
    out.append(std::string_view(buffer.data(), static_cast<std::size_t>(size)), Origin::of_template);
  }
  out.append(format, done, bytes.size());
  if (used < values.size() && arguments.list() != nullptr) fail("not all arguments converted during string formatting");
  if (used == 0 && arguments.dict() == nullptr && arguments.list() == nullptr) {
    fail("not all arguments converted during string formatting");
  }
  return out;
}

}  // namespace plimsoll::jinja
