// How many pieces of a size cover a whole, and the whole rounded up to them. For counts: `n` not negative, `piece` positive.
#pragma once

#include <cstdint>

namespace plimsoll {

constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t piece) { return (n + piece - 1) / piece; }
constexpr std::int64_t round_up(std::int64_t n, std::int64_t piece) { return ceil_div(n, piece) * piece; }

}  // namespace plimsoll
