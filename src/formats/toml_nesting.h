// The depth of nested tables in a TOML text, found before toml++ reads it.
#pragma once

#include <optional>
#include <string_view>

namespace plimsoll {

// The line in which there are more dotted keys or open brackets than any file of ours has, strings and comments left aside.
// toml++ follows them by recursion, without a limit for the former.
std::optional<int> toml_nesting_line(std::string_view text);

}  // namespace plimsoll
