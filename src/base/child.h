// Work in a child process: planning, measuring and calibration come and go there, so that the process that trains never carries
// their pages. The child is a fork: call this before the first parallel_for of the parent, whose team does not survive it.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace plimsoll {

// Runs `work` in a child and returns its text. An Error in the child is thrown here again, whole. A child that finds no memory
// is E-MEM-PLAN where a MemoryLimit holds (base/memory_limit.h), else E-CHILD; a child that dies of something else is E-CHILD
// with its signal. `stopped` is asked ten times a second: once it says so, the child is ended and E-INTERRUPTED (exit 6) thrown.
std::string run_in_child(const std::function<std::string()>& work, const std::function<bool()>& stopped = {});

// "it was stopped while it planned"; exit 6.
Error stopped_while_planning();

}  // namespace plimsoll
