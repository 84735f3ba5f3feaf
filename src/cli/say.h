// What a command tells beside its result, on stderr. It is given up where it cannot be written: a full disk under a log, a
// terminal that is gone. Nothing throws, and the error flag of stderr stays as it is.
#pragma once

#include <string_view>

namespace plimsoll {

// As it stands, without a line end. Where nobody reads the pipe any more, a training stops (see signals.h).
void say_text(std::string_view text) noexcept;
void say_line(std::string_view line);

}  // namespace plimsoll
