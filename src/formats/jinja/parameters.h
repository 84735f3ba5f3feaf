// The arguments of a built-in function, assigned to its parameters.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/jinja/evaluator.h"

namespace plimsoll::jinja {

class Parameters {
 public:
  // E-CHAT-TEMPLATE: too many arguments, an unknown name, or two values for one parameter.
  Parameters(const Evaluator& evaluator, std::string_view function, CallArguments arguments,
             std::initializer_list<std::string_view> names);

  bool has(std::size_t index) const { return given_[index]; }
  // The value of a parameter; undefined if it is not given.
  const Value& at(std::size_t index) const { return values_[index]; }
  // E-CHAT-TEMPLATE: the parameter is not given.
  const Value& need(std::size_t index) const;
  Value value(std::size_t index, Value fallback) const { return given_[index] ? values_[index] : std::move(fallback); }
  bool flag(std::size_t index, bool fallback) const { return given_[index] ? is_true(values_[index]) : fallback; }

 private:
  const Evaluator& evaluator_;
  std::string_view function_;
  std::vector<std::string_view> names_;
  std::vector<Value> values_;
  std::vector<bool> given_;
};

// A call of a filter or method. `input`: the filter's input or the method's object.
struct BuiltIn {
  Evaluator& evaluator;
  std::string_view name;
  const Value& input;
  CallArguments arguments;

  Parameters take(std::initializer_list<std::string_view> names) {
    return Parameters(evaluator, name, std::move(arguments), names);
  }
  // soft_str(): the input as a text.
  Text text() const {
    evaluator.charge(input.weight());
    return text_of(input);
  }
};

// A function without parameters that changes a text.
template <Text (*change)(const Text&)>
Value changed(BuiltIn call) {
  call.take({});
  return call.evaluator.made(change(call.text()));
}

}  // namespace plimsoll::jinja
