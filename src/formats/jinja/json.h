// Values as JSON, in the form of Python's json module.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/jinja/evaluator.h"
#include "formats/jinja/json_value.h"

namespace plimsoll::jinja {

struct JsonStyle {
  bool ascii = false;                 // escapes other characters as \u and four digits
  std::optional<std::string> indent;  // of one level; absent: one line
  std::string between = ", ", behind_key = ": ";
  bool sort_keys = false;
};

// E-CHAT-TEMPLATE: JSON has no form for a part of the value.
Text to_json(Evaluator& evaluator, const Value& value, const JsonStyle& style);

}  // namespace plimsoll::jinja
