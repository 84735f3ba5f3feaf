// A schedule within a number of bytes: ops run in their order, and where room is short something is given up that can be made
// again, as late as it is needed. What is given up follows from how far away its next use is, how many bytes it frees and how
// long it takes to make it again, weighed by a key for each item; searching over keys is another file's business (search.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/replays/problem.h"

namespace plimsoll::replays {

// Exponents of what is weighed.
struct Weights {
  double distance = 1, bytes = 1, seconds = 1;
};

struct Schedule {
  std::vector<Replay> replays;
  double seconds = 0;  // of all runs
};

// What stays the same from one schedule of a problem to the next.
class Evictor {
 public:
  // The problem outlives this.
  explicit Evictor(const Problem& problem);
  // Nothing where the bytes do not suffice for this way to choose, or more than `most_seconds` would be taken.
  std::optional<Schedule> schedule(std::int64_t bytes, const Weights& weights, std::span<const double> keys,
                                   double most_seconds) const;
  double seconds() const { return seconds_; }  // of every op once

 private:
  friend class Eviction;
  const Problem& problem_;
  std::vector<int> maker_;              // by item: the op that writes it; -1: there from the beginning
  std::vector<std::vector<int>> uses_;  // by item: ops that read it, ascending
  std::vector<int> last_;               // by item: the last op that could need it, through whatever runs again
  std::vector<double> begins_;          // by op: seconds before it where every op runs once
  double seconds_ = 0;
};

}  // namespace plimsoll::replays
