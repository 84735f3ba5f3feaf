// What may rest on tiers past the first, and how many micro-batches may go together: the choices that a micro-batch size has,
// before anything is said of its blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/candidates.h"

namespace plimsoll {

// Something has to leave memory.
bool wants_disk(const PlanRequest& request);

// Of a micro-batch size: whether several may go together, and whether updates end gradients within the backward pass where all
// of a window does.
struct Together {
  bool may = false, ends = false;
};
Together together_of(const BatchModel& model, const PlanRequest& request);

// Everything in memory, and what the tiers beyond have room for. `smallest`: of the smallest micro-batch, where the floor is.
// Throws config_error: E-HOST-SIZE where the process on a host has no room there, E-DISK-SIZE where something has to leave memory
// and nothing beyond has room for it.
std::vector<Paging> pagings(BatchModel& model, Together together, bool smallest, const PlanRequest& request,
                            const Machine& machine);

// A choice that was looked at, and the seconds of its fastest plan.
struct Looked {
  Paging paging;
  double seconds = 0;
};
// What is worth a look beside these: between two of which one is slower by more than a step and leaves more of the blocks, half
// of those blocks keep theirs. Asked again with what it gave, it ends.
std::vector<Paging> between(BatchModel& model, Together together, const std::vector<Looked>& looked, const PlanRequest& request,
                            const Machine& machine);

// How many micro-batches go together: one; where parameters come from elsewhere, as many as can, and a few of those between; in
// memory alone all of a window, where their gradients then need not be kept. Throws E-PLAN-GROUP where so many cannot.
std::vector<std::int64_t> groups(const BatchModel& model, Together together, const Paging& paging, const PlanRequest& request);

// The paging with what the process on a host needs for a larger group; nothing where that leaves too little room.
std::optional<Paging> beside_group(const BatchModel& model, Paging paging, std::int64_t group, const PlanRequest& request,
                                   const Machine& machine);

}  // namespace plimsoll
