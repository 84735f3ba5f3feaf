// A schedule within a number of bytes. Ops run in their order; if room is short, an item is evicted and made again right
// before its next use. The choice of the item depends on the distance of its next use, its bytes and the seconds to make it
// again, scaled by a key per item. search.h searches over keys.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "plan/replays/problem.h"

namespace plimsoll::replays {

// Exponents of the three criteria.
struct Weights {
  double distance = 1, bytes = 1, seconds = 1;
};

struct Schedule {
  std::vector<Replay> replays;
  double seconds = 0;  // of all runs
};

// Limits of one schedule.
struct Effort {
  double most_seconds = std::numeric_limits<double>::infinity();
  std::size_t most_replays = std::numeric_limits<std::size_t>::max();
  std::int64_t most_looks = std::numeric_limits<std::int64_t>::max();  // examinations of items, for any purpose
  // True if an item that cannot be made again may be evicted after its last use, although live items could still be made
  // again from it. Those items then have to stay.
  bool last_resort = false;
};

// The data that all schedules of a problem share.
class Evictor {
 public:
  // The problem outlives this.
  explicit Evictor(const Problem& problem);
  // None if the bytes or the effort do not suffice for this choice of weights and keys. `looks`, if given, grows by the
  // number of looks.
  std::optional<Schedule> schedule(std::int64_t bytes, const Weights& weights, std::span<const double> keys,
                                   const Effort& effort = {}, std::int64_t* looks = nullptr) const;
  double seconds() const { return seconds_; }  // of every op once

 private:
  friend class Eviction;
  const Problem& problem_;
  std::vector<int> maker_;                // by item: the op that writes it; -1: there from the beginning
  std::vector<std::vector<int>> uses_;    // by item: ops that read it, ascending
  std::vector<int> last_;                 // by item: the last op that could need it, directly or through replays
  std::vector<std::vector<int>> end_;     // by op: the items that it is the last one to need
  std::vector<std::vector<int>> expire_;  // by op: the items that cannot be made again from it on
  std::vector<double> begins_;            // by op: seconds before it if every op runs once
  double seconds_ = 0;
};

}  // namespace plimsoll::replays
