// The choices of a micro-batch size before those of its blocks: values that rest on tiers past the first, and the number of
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

  // Everything in memory, then the pagings that have room beyond, from the least to the most; pagings of block values also with
  // levels of resident blocks. Throws config_error: E-DISK-SIZE if values have to leave memory and no tier beyond has room for
  // them.
  std::vector<Residency> choices() const;
  // The numbers of micro-batches that go together: one; if parameters come from another tier, as many as possible and a few
  // between; in memory alone a whole window, if its gradients then need not be kept. Throws E-PLAN-GROUP if the requested number
  // cannot go together.
  std::vector<std::int64_t> groups(const Residency& residency) const;
  // The paging with the room for the host process of a larger group; none if that leaves too little room.
  std::optional<Residency> beside_group(Residency residency, std::int64_t group) const;

 private:
  // A paging beside the process on a host.
  struct Beside {
    Residency residency;
    bool has_room;
    Bytes least;  // the room that the last tier needs
  };
  std::vector<Residency> listed(bool early, bool tables) const;
  bool may_divide(const Residency& residency) const;
  std::vector<Beside> levels_of(Residency residency) const;
  std::optional<Beside> beside_process(Residency residency) const;  // none if nothing rests
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
  bool group_ends_ = false;  // and a group of the whole window ends gradients early
  Bytes room_;               // beside the process on a host
};

}  // namespace plimsoll
