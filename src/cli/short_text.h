// A text in one line of bounded length, for people: runs of white space are one blank.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

// Its beginning or its end, with "…" for the rest. `most`: bytes.
std::string first_words(std::string_view text, std::size_t most);
std::string last_words(std::string_view text, std::size_t most);

}  // namespace plimsoll
