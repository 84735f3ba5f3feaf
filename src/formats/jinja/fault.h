// The error of a template.
#pragma once

#include <string>

#include "base/error.h"

namespace plimsoll::jinja {

// data_error E-CHAT-TEMPLATE at a line of a template.
Error template_error(const std::string& name, int line, std::string message, std::string expected = {});

}  // namespace plimsoll::jinja
