// The arguments of a built-in function by the names of its parameters.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "formats/jinja/evaluator.h"

namespace plimsoll::jinja {

class Parameters {
 public:
  // E-CHAT-TEMPLATE: there are more arguments than names, an unknown name, or two values for one.
  Parameters(const Evaluator& evaluator, std::string_view function, CallArguments arguments,
             std::initializer_list<std::string_view> names);

  bool has(std::size_t index) const { return given_[index]; }
  // Undefined where it is not given.
  const Value& at(std::size_t index) const { return values_[index]; }
  // E-CHAT-TEMPLATE: it is not given.
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

}  // namespace plimsoll::jinja
