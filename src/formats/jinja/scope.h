// The state of a rendering: variables, namespaces, the variable `loop`, and callable values.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "formats/jinja/tree.h"
#include "formats/jinja/value.h"

namespace plimsoll::jinja {

// The variables of a template, of one turn of a loop, or of a call.
struct Scope {
  std::shared_ptr<Scope> outer;
  std::map<std::string, Value, std::less<>> names;
  int turn = -1;  // the message of a loop; -1: none

  // The variable in this scope or the nearest outer one; null if there is none.
  const Value* find(std::string_view name) const;
};

// Replaces the scope during its lifetime.
class Restore {
 public:
  Restore(std::shared_ptr<Scope>& place, std::shared_ptr<Scope> inner)
      : place_(place), old_(std::exchange(place, std::move(inner))) {}
  ~Restore() { place_ = std::move(old_); }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;

 private:
  std::shared_ptr<Scope>& place_;
  std::shared_ptr<Scope> old_;
};

// The value of namespace(), which a template may change.
struct NameSpace {
  std::map<std::string, Value, std::less<>> names;
};

struct LoopState {
  std::vector<Value> items;
  std::size_t index = 0;
  unsigned depth = 1;
  std::optional<Value> changed;  // the last arguments of loop.changed()
};

// A function of every template, by name.
struct GlobalFunction {
  std::string_view name;
};
// A method of a value.
struct NamedMethod;  // methods.cpp
struct Method {
  Value self;
  const NamedMethod* method = nullptr;
};
// A macro with the scope of its definition, whose variables its body sees.
struct BoundMacro {
  const Macro* macro = nullptr;
  Scope* scope = nullptr;  // kept by the evaluator
};
struct Callable {
  std::variant<GlobalFunction, Method, BoundMacro> any;
};

// The evaluated arguments of a call.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

}  // namespace plimsoll::jinja
