// A template's text as a tree.
#pragma once

#include <string>
#include <string_view>

#include "formats/jinja/tree.h"

namespace plimsoll::jinja {

// `name` of the file is for messages. E-CHAT-TEMPLATE: it is no template, uses a statement that is not computed (extends,
// include, import, block, autoescape, recursive loops), or is nested too deeply.
Tree parse(std::string_view source, std::string name);

}  // namespace plimsoll::jinja
