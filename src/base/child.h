// Work in a child process: planning, measuring and calibration leave no pages in the process that trains. The child is a fork,
// which has no threads of the parent: call this before the parent's first parallel_for.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace plimsoll {

// Runs `work` in a child and returns its text. An Error of the child is thrown here again. A child without memory is E-MEM-PLAN
// under a MemoryLimit (base/memory_limit.h), else E-CHILD. A child that crashes is E-INTERNAL (exit 1) with the signal, unless
// memory ran out under the limit. A child that another signal ends is E-CHILD. `stopped` is called ten times a second; once it
// returns true, the child is killed and E-INTERRUPTED (exit 6) is thrown.
std::string run_in_child(const std::function<std::string()>& work, const std::function<bool()>& stopped = {});

// E-INTERRUPTED of planning; exit 6.
Error stopped_while_planning();

}  // namespace plimsoll
