// Work in a child process: planning, measuring and calibration come and go there, so that the process that trains never carries
// their pages. The child is a fork: call this before the first parallel_for of the parent, whose team does not survive it.
#pragma once

#include <functional>
#include <string>

namespace plimsoll {

// Runs `work` in a child and returns its text. An Error in the child is thrown here again, whole; a child that dies of something
// else is an environment error E-CHILD that names the signal, or the memory that it did not get.
std::string run_in_child(const std::function<std::string()>& work);

}  // namespace plimsoll
