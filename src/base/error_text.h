// An error as text, for another process of this program.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"

namespace plimsoll {

// One JSON object. Bytes that are not UTF-8 are replaced.
std::string text_of(const Error& error);
// Nothing if the text is cut off.
std::optional<Error> error_from(const std::string& text);

}  // namespace plimsoll
