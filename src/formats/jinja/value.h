// The values of a template, like Python's: immutable and shared, except for namespaces, which belong to one rendering.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "formats/jinja/text.h"

namespace plimsoll::jinja {

class Value;
struct Callable;   // scope.h: functions, methods, macros
struct LoopState;  // scope.h: the variable `loop`
struct NameSpace;  // scope.h

// A missing value. It renders as an empty text; other operations fail with this reason.
struct Undefined {
  std::shared_ptr<const std::string> why;
};
struct None {};
// A whole number of JSON above 64 bits. It can be rendered but not computed with.
struct BigInteger {
  std::shared_ptr<const std::string> digits;
};

enum class ListKind { list, tuple, generator };

struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::list;
  unsigned depth = 1;         // of the nesting
  std::uint64_t weight = 0;   // see Value::weight
  mutable bool used = false;  // a generator whose items have been taken
};

// A dict in the order of the first assignment of each key.
class Dict {
 public:
  void set(Value key, Value value);
  // Null if the key is absent.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  const std::vector<std::pair<Value, Value>>& items() const;
  std::size_t size() const;
  unsigned depth() const { return depth_; }
  std::uint64_t weight() const { return weight_; }

 private:
  std::size_t place(const Value& key) const;

  std::vector<std::pair<Value, Value>> items_;
  std::unordered_map<std::string, std::size_t> places_;  // of text keys; only in large dicts
  unsigned depth_ = 1;
  std::uint64_t weight_ = 0;
};

class Value {
 public:
  using Any = std::variant<Undefined, None, bool, std::int64_t, double, BigInteger, std::shared_ptr<const Text>,
                           std::shared_ptr<const List>, std::shared_ptr<const Dict>, NameSpace*, std::shared_ptr<const Callable>,
                           std::shared_ptr<LoopState>>;

  Value() : any_(Undefined{}) {}
  Value(None) : any_(None{}) {}
  Value(Undefined why) : any_(std::move(why)) {}
  template <std::same_as<bool> Bool>  // of nothing that turns into one
  Value(Bool value) : any_(value) {}
  Value(std::int64_t value) : any_(value) {}
  Value(int value) : any_(std::int64_t{value}) {}
  Value(double value) : any_(value) {}
  Value(BigInteger value) : any_(std::move(value)) {}
  Value(Text text) : any_(std::make_shared<const Text>(std::move(text))) {}
  Value(std::shared_ptr<const Text> text) : any_(std::move(text)) {}
  Value(List list) : any_(std::make_shared<const List>(std::move(list))) {}
  Value(Dict dict) : any_(std::make_shared<const Dict>(std::move(dict))) {}
  Value(NameSpace* space) : any_(space) {}
  Value(std::shared_ptr<const Callable> callable) : any_(std::move(callable)) {}
  Value(std::shared_ptr<LoopState> loop) : any_(std::move(loop)) {}

  const Any& any() const { return any_; }
  template <class Kind>
  const Kind* get() const {
    return std::get_if<Kind>(&any_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  // Null for other types.
  const Text* text() const { return shared<Text>(); }
  const List* list() const { return shared<List>(); }
  const Dict* dict() const { return shared<Dict>(); }
  // Truth values are numbers, as in Python.
  bool is_number() const { return get<bool>() || get<std::int64_t>() || get<double>() || get<BigInteger>(); }
  // The nesting of containers; 0 for other values.
  unsigned depth() const;
  // The approximate bytes of the value as a text. Shared parts count each time.
  std::uint64_t weight() const;
  // "str", "dict", "NoneType"
  std::string_view type() const;

 private:
  template <class Kind>
  const Kind* shared() const {
    const auto* pointer = std::get_if<std::shared_ptr<const Kind>>(&any_);
    return pointer ? pointer->get() : nullptr;
  }

  Any any_;
};

inline const std::vector<std::pair<Value, Value>>& Dict::items() const { return items_; }
inline std::size_t Dict::size() const { return items_.size(); }

List make_list(std::vector<Value> items, ListKind kind = ListKind::list);

bool is_true(const Value& value);
// The operator ==: numbers by value, texts by bytes, containers by content.
bool equal(const Value& a, const Value& b);
// str(value) and repr(value).
Text text_of(const Value& value);
Text repr_of(const Value& value);
std::string float_text(double number);

}  // namespace plimsoll::jinja
