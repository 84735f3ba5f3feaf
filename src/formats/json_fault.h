// The place at which a text stops being JSON, for people.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// "line 3, column 5: unexpected '}'"; "" where the text is JSON.
std::string json_fault(std::string_view text);

}  // namespace plimsoll
