// Where a row of cases stops fitting: numbers from 0 on. As a rule all cases up to one fit, and none behind it. This file knows
// nothing of plans. Each case costs one, so few are tried.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace plimsoll {

struct Tried {
  bool fits = false;
  std::optional<double> needs;  // of `room`, where that is known
};

// The last case that fits, with the one behind it tried as well; nothing where case 0 does not fit, which has been tried. Begins
// at `start`, goes at least twice as far until a case does not fit, or looks at case 0, and then goes where a straight line
// between their needs meets `room`, or where that gains little to the middle. Each case is tried once.
std::optional<std::int64_t> last_that_fits(std::int64_t start, double room, const std::function<Tried(std::int64_t)>& attempt);

struct Enough {
  bool fits = false;
  std::int64_t used = 0;  // a case that should do as well
};

// The first case that fits where larger ones do, too, with the one before it tried as well, unless it is 0; nothing where
// `most` does not fit.
std::optional<std::int64_t> first_that_fits(std::int64_t most, const std::function<Enough(std::int64_t)>& attempt);

}  // namespace plimsoll
