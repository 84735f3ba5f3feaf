// Work in a child process: planning, measuring and calibration leave no pages in the process that trains. The child is a fork:
// call this before the first parallel_for of the parent, whose team does not survive it.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace plimsoll {

// Runs `work` in a child and returns its text. An Error of the child is thrown here again. A child without memory is E-MEM-PLAN
// under a MemoryLimit (base/memory_limit.h), else E-CHILD; a child ended by a signal is E-CHILD with the signal. `stopped` is
// called ten times a second; once true, the child is ended and E-INTERRUPTED (exit 6) thrown.
std::string run_in_child(const std::function<std::string()>& work, const std::function<bool()>& stopped = {});

// "it was stopped while it planned"; exit 6.
Error stopped_while_planning();

}  // namespace plimsoll
