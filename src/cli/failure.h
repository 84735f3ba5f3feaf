// The report of a failure: code, place, facts, expectation and remedies, on stderr; with --json also as one object on
// stdout, with further errors in "others". With a log in JSON, stderr gets that object instead of the text.
#pragma once

#include "base/error.h"

namespace plimsoll {

// Prints the error and returns its exit code.
int report_failure(const Error& error, bool json);

}  // namespace plimsoll
