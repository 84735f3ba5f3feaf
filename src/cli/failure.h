// How a failure is told: code, where, what is, what was expected and what to try, on stderr; with --json also as one object on
// stdout.
#pragma once

#include "base/error.h"

namespace plimsoll {

// Prints the error and returns its exit code.
int report_failure(const Error& error, bool json);

}  // namespace plimsoll
