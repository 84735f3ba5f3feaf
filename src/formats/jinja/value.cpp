#include "formats/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/visit.h"
#include "formats/jinja/scope.h"
#include "formats/jinja/unicode.h"
#include "formats/tokenizer/character.h"

namespace plimsoll::jinja {
namespace {

constexpr std::size_t kFewKeys = 8;

// The number of a truth value, whole number or float; absent for others.
bool numbers_equal(const Value& a, const Value& b) {
  const auto whole = [](const Value& v) -> const std::int64_t* { return v.get<std::int64_t>(); };
  const auto integer = [&](const Value& v, std::int64_t& out) {
    if (const bool* truth = v.get<bool>()) return out = *truth ? 1 : 0, true;
    if (whole(v)) return out = *whole(v), true;
    return false;
  };
  std::int64_t x = 0, y = 0;
  if (integer(a, x) && integer(b, y)) return x == y;
  if (const auto* big = a.get<BigInteger>(), *other = b.get<BigInteger>(); big || other) {
    return big && other && *big->digits == *other->digits;
  }
  const double* left = a.get<double>();
  const double* right = b.get<double>();
  if (left && right) return *left == *right;
  if (left && integer(b, y)) return *left == static_cast<double>(y);
  return right && integer(a, x) && *right == static_cast<double>(x);
}

bool lists_equal(const List& a, const List& b) {
  if (a.kind == ListKind::generator || b.kind == ListKind::generator) return &a == &b;
  return a.kind == b.kind && std::ranges::equal(a.items, b.items, equal);
}

bool dicts_equal(const Dict& a, const Dict& b) {
  return a.size() == b.size() && std::ranges::all_of(a.items(), [&](const auto& item) {
           const Value* other = b.find(item.first);
           return other != nullptr && equal(item.second, *other);
         });
}

// A text as a Python literal.
Text quoted(const Text& text) {
  const std::string& bytes = text.bytes();
  const char quote = bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'';
  Text out(std::string(1, quote));
  text.each_stretch([&](std::string_view stretch, Origin origin) {
    std::string written;
    for (std::size_t at = 0; at < stretch.size();) {
      const std::size_t begin = at;
      const char32_t c = next_character(stretch, at);
      if (c == U'\n') {
        written += "\\n";
      } else if (c == U'\r') {
        written += "\\r";
      } else if (c == U'\t') {
        written += "\\t";
      } else if (c == U'\\' || c == static_cast<char32_t>(quote)) {
        written += '\\';
        written += static_cast<char>(c);
      } else if (is_printable(c)) {
        written += stretch.substr(begin, at - begin);
      } else {
        const auto code = static_cast<unsigned>(c);
        written += c < 0x100 ? fmt::format("\\x{:02x}", code)
                             : (c < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code));
      }
    }
    out.append(written, origin);
  });
  out.append(std::string_view(&quote, 1), Origin::of_template);
  return out;
}

Text list_repr(const List& list) {
  if (list.kind == ListKind::generator) return Text("<generator object>");
  const bool tuple = list.kind == ListKind::tuple;
  Text out(tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ", Origin::of_template);
    out.append(repr_of(list.items[i]));
  }
  if (tuple && list.items.size() == 1) out.append(",", Origin::of_template);
  out.append(tuple ? ")" : "]", Origin::of_template);
  return out;
}

Text dict_repr(const Dict& dict) {
  Text out("{");
  bool first = true;
  for (const auto& [key, value] : dict.items()) {
    if (!first) out.append(", ", Origin::of_template);
    first = false;
    out.append(repr_of(key));
    out.append(": ", Origin::of_template);
    out.append(repr_of(value));
  }
  out.append("}", Origin::of_template);
  return out;
}

}  // namespace

namespace {

std::uint64_t add_weight(std::uint64_t a, std::uint64_t b) { return a + std::min(b, ~a); }

}  // namespace

std::size_t Dict::place(const Value& key) const {
  if (const Text* text = key.text(); text != nullptr && !places_.empty()) {
    const auto found = places_.find(text->bytes());
    return found == places_.end() ? items_.size() : found->second;
  }
  return static_cast<std::size_t>(std::ranges::find_if(items_, [&](const auto& item) { return equal(item.first, key); }) -
                                  items_.begin());
}

void Dict::set(Value key, Value value) {
  depth_ = std::max(depth_, std::max(key.depth(), value.depth()) + 1);
  weight_ = add_weight(weight_, add_weight(key.weight(), value.weight()));
  const std::size_t at = place(key);
  if (at < items_.size()) {
    items_[at].second = std::move(value);
    return;
  }
  items_.emplace_back(std::move(key), std::move(value));
  if (items_.size() <= kFewKeys) return;
  const std::size_t first = places_.empty() ? 0 : items_.size() - 1;
  for (std::size_t i = first; i < items_.size(); ++i) {
    if (const Text* text = items_[i].first.text()) places_.emplace(text->bytes(), i);
  }
}

const Value* Dict::find(const Value& key) const {
  const std::size_t at = place(key);
  return at < items_.size() ? &items_[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (!places_.empty()) {
    const auto found = places_.find(std::string(key));
    return found == places_.end() ? nullptr : &items_[found->second].second;
  }
  for (const auto& [name, value] : items_) {
    if (const Text* text = name.text(); text != nullptr && text->bytes() == key) return &value;
  }
  return nullptr;
}

unsigned Value::depth() const {
  if (const List* each = list()) return each->depth;
  if (const Dict* each = dict()) return each->depth();
  return 0;
}

std::uint64_t Value::weight() const {
  constexpr std::uint64_t kOwn = 8;
  if (const Text* each = text()) return kOwn + each->size();
  if (const List* each = list()) return add_weight(kOwn, each->weight);
  if (const Dict* each = dict()) return add_weight(kOwn, each->weight());
  return kOwn;
}

std::string_view Value::type() const {
  return match(
      any_, [](const Undefined&) { return "Undefined"; }, [](const None&) { return "NoneType"; },
      [](const bool&) { return "bool"; }, [](const std::int64_t&) { return "int"; }, [](const double&) { return "float"; },
      [](const BigInteger&) { return "int"; }, [](const std::shared_ptr<const Text>&) { return "str"; },
      [](const std::shared_ptr<const List>& list) {
        return list->kind == ListKind::list ? "list" : list->kind == ListKind::tuple ? "tuple" : "generator";
      },
      [](const std::shared_ptr<const Dict>&) { return "dict"; }, [](NameSpace* const&) { return "namespace"; },
      [](const std::shared_ptr<const Callable>&) { return "function"; },
      [](const std::shared_ptr<LoopState>&) { return "loop"; });
}

List make_list(std::vector<Value> items, ListKind kind) {
  List list;
  list.kind = kind;
  for (const Value& item : items) {
    list.depth = std::max(list.depth, item.depth() + 1);
    list.weight = add_weight(list.weight, item.weight());
  }
  list.items = std::move(items);
  return list;
}

bool is_true(const Value& value) {
  return match(
      value.any(), [](const Undefined&) { return false; }, [](const None&) { return false; }, [](bool truth) { return truth; },
      [](std::int64_t number) { return number != 0; }, [](double number) { return number != 0; },
      [](const BigInteger&) { return true; }, [](const std::shared_ptr<const Text>& text) { return !text->empty(); },
      [](const std::shared_ptr<const List>& list) { return list->kind == ListKind::generator || !list->items.empty(); },
      [](const std::shared_ptr<const Dict>& dict) { return dict->size() > 0; }, [](NameSpace* const&) { return true; },
      [](const std::shared_ptr<const Callable>&) { return true; },
      [](const std::shared_ptr<LoopState>& loop) { return !loop->items.empty(); });
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return numbers_equal(a, b);
  if (a.any().index() != b.any().index()) return false;
  return match(
      a.any(), [](const Undefined&) { return true; }, [](const None&) { return true; }, [](bool) { return false; },
      [](std::int64_t) { return false; }, [](double) { return false; }, [](const BigInteger&) { return false; },
      [&](const std::shared_ptr<const Text>& text) { return text->bytes() == b.text()->bytes(); },
      [&](const std::shared_ptr<const List>& list) { return list.get() == b.list() || lists_equal(*list, *b.list()); },
      [&](const std::shared_ptr<const Dict>& dict) { return dict.get() == b.dict() || dicts_equal(*dict, *b.dict()); },
      [&](NameSpace* space) { return space == *b.get<NameSpace*>(); },
      [&](const std::shared_ptr<const Callable>& callable) { return callable == *b.get<std::shared_ptr<const Callable>>(); },
      [&](const std::shared_ptr<LoopState>& loop) { return loop == *b.get<std::shared_ptr<LoopState>>(); });
}

// The shortest digits that give the same number, with an exponent like Python's.
std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string_view written(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = written.find('e');
  const int exponent = std::atoi(std::string(written.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}e{}{:02}", written.substr(0, e), exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::fixed).ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

Text repr_of(const Value& value) {
  return match(
      value.any(), [](const Undefined&) { return Text("Undefined"); }, [](const None&) { return Text("None"); },
      [](bool truth) { return Text(truth ? "True" : "False"); }, [](std::int64_t number) { return Text(fmt::to_string(number)); },
      [](double number) { return Text(float_text(number)); }, [](const BigInteger& big) { return Text(*big.digits); },
      [](const std::shared_ptr<const Text>& text) { return quoted(*text); },
      [](const std::shared_ptr<const List>& list) { return list_repr(*list); },
      [](const std::shared_ptr<const Dict>& dict) { return dict_repr(*dict); },
      [](NameSpace* const&) { return Text("<Namespace>"); },
      [](const std::shared_ptr<const Callable>&) { return Text("<function>"); },
      [](const std::shared_ptr<LoopState>& loop) {
        return Text(fmt::format("<LoopContext {}/{}>", loop->index + 1, loop->items.size()));
      });
}

Text text_of(const Value& value) {
  if (value.is_undefined()) return Text();
  if (const Text* text = value.text()) return *text;
  return repr_of(value);
}

}  // namespace plimsoll::jinja
