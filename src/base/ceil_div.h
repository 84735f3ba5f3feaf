// The number of pieces that cover a whole, and the whole rounded up to pieces; `n` >= 0, `piece` > 0.
#pragma once

#include <cstdint>

namespace plimsoll {

constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t piece) { return (n + piece - 1) / piece; }
constexpr std::int64_t round_up(std::int64_t n, std::int64_t piece) { return ceil_div(n, piece) * piece; }

}  // namespace plimsoll
