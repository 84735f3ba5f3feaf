// Seconds of a clock that only goes forward, for durations.
#pragma once

#include <chrono>

namespace plimsoll {

inline double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace plimsoll
