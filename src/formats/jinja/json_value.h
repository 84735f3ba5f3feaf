// JSON as values. Keys keep their order, the last value of a repeated key counts, and whole numbers of any length keep their
// digits.
#pragma once

#include <string>
#include <string_view>

#include "formats/jinja/value.h"

namespace plimsoll::jinja {

struct JsonResult {
  Value value;
  std::string fault;  // "line 3, column 5: ..."; empty: none
};

// `origin`: of all texts. A fault: the text is no JSON, is nested deeper than 100, or has more than 200,000 values.
JsonResult parse_json(std::string_view text, Origin origin);

}  // namespace plimsoll::jinja
