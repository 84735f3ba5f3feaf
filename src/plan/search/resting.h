// The choices that come before those of single blocks: the residency of values on tiers past the first, and the number of
// micro-batches that go together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/search/candidates.h"

namespace plimsoll {

// True if the request forces values to leave memory.
bool wants_disk(const PlanRequest& request);

// True if the host of a device has its own budget. Only a whole plan shows if it exceeds that budget.
bool limits_host(const PlanRequest& request, const Machine& machine);

// All references outlive this.
class Resting {
 public:
  // `smallest`: true for the smallest micro-batch, which has the floor. Throws config_error: E-HOST-SIZE if the process on a host
  // has no room there.
  Resting(BatchModel& model, bool smallest, const PlanRequest& request, const Machine& machine);

  // Everything in memory, then the residencies for which the tiers have room, from the fewest bytes on them to the most.
  // Values of blocks also come in levels of blocks that keep them. Throws config_error: E-DISK-SIZE if values have to leave
  // memory and no tier has room for them.
  std::vector<Residency> choices() const;
  // The numbers of micro-batches that go together. One by one; if parameters come from another tier, also as many as
  // possible and a number between; with everything in memory also the whole window, if its gradients then need not stay. A
  // residency whose gradients stay only because a group ends them has the whole window, or none. Throws config_error:
  // E-PLAN-GROUP if the requested number cannot go together.
  std::vector<std::int64_t> groups(const Residency& residency) const;
  // The residency with room for the host process of a larger group; none if the tiers have too little.
  std::optional<Residency> beside_group(Residency residency, std::int64_t group) const;

 private:
  // A residency next to the process on a host.
  struct Beside {
    Residency residency;
    bool has_room;
    Bytes least;  // the room that the last tier needs
  };
  std::vector<Residency> listed(bool early, bool tables) const;
  bool may_divide(const Residency& residency) const;
  std::vector<Beside> levels_of(Residency residency) const;
  std::optional<Beside> beside_process(Residency residency) const;  // none if no value leaves memory
  Bytes steps_of_host() const;
  Bytes room_of_host() const;
  Bytes transfers_of_host(const Graph& paged, const Residency& residency) const;
  Error no_room(Bytes least) const;

  BatchModel* model_;
  const PlanRequest* request_;
  const Machine* machine_;
  bool smallest_;
  bool early_;               // updates run within the backward pass, which ends gradients early; or nothing is trained
  bool may_group_;           // several micro-batches may go together
  bool group_ends_ = false;  // a group of the whole window ends gradients early
  Bytes room_;               // bytes of the host's budget without its process; kAllNear: no limit
};

}  // namespace plimsoll
