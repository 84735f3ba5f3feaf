// The boundary in a row of cases, numbered from 0, between those that fit and those that do not. As a rule all cases up to one
// fit, and none after it. This file knows nothing of plans. Each case costs a plan, so few are tried.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace plimsoll {

struct Tried {
  bool fits = false;
  std::optional<double> needs;  // the need of the case, compared with `room`; nothing: unknown
};

// The last case that fits; the next case has been tried as well. Nothing if case 0 has been tried and does not fit. The search
// begins at `start` and at least doubles until a case does not fit; if `start` does not fit, case 0 is next. The next case is the
// one where a straight line between the needs of two cases meets `room`, or the middle if lines gain little. Each case is tried
// once.
std::optional<std::int64_t> last_that_fits(std::int64_t start, double room, const std::function<Tried(std::int64_t)>& attempt);

struct Enough {
  bool fits = false;
  std::int64_t used = 0;  // a case that most likely fits as well
};

// The first case that fits, if larger ones fit as well; the one before it has been tried, unless it is case 0. Nothing if `most`
// does not fit.
std::optional<std::int64_t> first_that_fits(std::int64_t most, const std::function<Enough(std::int64_t)>& attempt);

}  // namespace plimsoll
