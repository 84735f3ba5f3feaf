// Words as a shell takes them, for commands that are printed to be copied.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// The word itself where a POSIX shell takes it as it is, else in single quotes.
std::string shell_quoted(std::string_view word);

}  // namespace plimsoll
