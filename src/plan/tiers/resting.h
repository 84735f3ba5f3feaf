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

// A host behind a device has a budget of its own, so that a plan may be too much for it in ways that only all of it shows.
bool limits_host(const PlanRequest& request, const Machine& machine);

// All references outlive this.
class Resting {
 public:
  // `smallest`: of the smallest micro-batch, where the floor is. Throws config_error: E-HOST-SIZE where the process on a host has
  // no room there.
  Resting(BatchModel& model, bool smallest, const PlanRequest& request, const Machine& machine);

  // Everything in memory, and what may rest beyond and has room there, from the least to the most; of what leaves the blocks also
  // with levels of blocks that keep theirs. Throws config_error: E-DISK-SIZE where something has to leave memory and nothing
  // beyond has room for it.
  std::vector<Paging> choices() const;
  // How many micro-batches go together: one; where parameters come from elsewhere, as many as can, and a few of those between; in
  // memory alone all of a window, where their gradients then need not be kept. Throws E-PLAN-GROUP where so many cannot.
  std::vector<std::int64_t> groups(const Paging& paging) const;
  // The paging with what the process on a host needs for a larger group; nothing where that leaves too little room.
  std::optional<Paging> beside_group(Paging paging, std::int64_t group) const;

 private:
  // A paging beside the process on a host.
  struct Beside {
    Paging paging;
    bool has_room;
    Bytes least;  // the room that the last tier needs
  };
  std::vector<Paging> listed(bool early, bool tables) const;
  bool may_divide(const Paging& paging) const;
  std::vector<Beside> levels_of(Paging paging) const;
  std::optional<Beside> beside_process(Paging paging) const;  // nothing where nothing rests
  Bytes steps_of_host() const;
  Bytes room_of_host() const;
  Bytes transfers_of_host(const Graph& paged, const Paging& paging) const;
  Error no_room(Bytes least) const;

  BatchModel* model_;
  const PlanRequest* request_;
  const Machine* machine_;
  bool smallest_;
  bool early_;               // updates end gradients within the backward pass
  bool may_group_;           // several micro-batches may go together
  bool group_ends_ = false;  // and updates do so where all of a window does
  Bytes room_;               // beside the process on a host
};

}  // namespace plimsoll
