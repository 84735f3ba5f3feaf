// Parses the text of a template into a tree.
#pragma once

#include <string>
#include <string_view>

#include "formats/jinja/tree.h"

namespace plimsoll::jinja {

// `name`: of the file, for messages. E-CHAT-TEMPLATE: a syntax error, a statement that is not supported (extends, include,
// import, block, autoescape, recursive loops), or too deep a nesting.
Tree parse(std::string_view source, std::string name);

}  // namespace plimsoll::jinja
