// Words quoted for a shell, for printed commands.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// The word itself if a POSIX shell takes it unquoted, else in single quotes.
std::string shell_quoted(std::string_view word);

}  // namespace plimsoll
