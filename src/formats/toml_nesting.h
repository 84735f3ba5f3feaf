// A limit on the nesting of a TOML text, checked before toml++ reads it.
#pragma once

#include <optional>
#include <string_view>

namespace plimsoll {

// The first line with more dotted keys or open brackets than any configuration has, outside of strings and comments; absent if
// there is none. toml++ follows both by recursion, and it has no limit for dotted keys.
std::optional<int> toml_nesting_line(std::string_view text);

}  // namespace plimsoll
