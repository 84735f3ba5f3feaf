// JSON as values, and values as JSON the way Python's json module writes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/jinja/evaluator.h"
#include "formats/jinja/json_value.h"

namespace plimsoll::jinja {

struct JsonStyle {
  bool ascii = false;                 // other characters are escaped: \u and four digits
  std::optional<std::string> indent;  // of one level
  std::string between = ", ", behind_key = ": ";
  bool sort_keys = false;
};

// E-CHAT-TEMPLATE: the value has a part that JSON has not.
Text to_json(Evaluator& evaluator, const Value& value, const JsonStyle& style);

}  // namespace plimsoll::jinja
