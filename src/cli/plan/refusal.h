// The end of a command whose training does not fit its budget.
#pragma once

#include "prepare/prepare.h"

namespace plimsoll {

// Shows the remedies of a refused plan, on stdout also its JSON if `as_json`. The decision has been shown before. Returns the
// exit code.
int refuse(const Refused& refused, bool as_json);

}  // namespace plimsoll
