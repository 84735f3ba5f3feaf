// A schedule within a number of bytes: ops run in their order, and where room is short something is given up that can be made
// again, as late as it is needed. What is given up follows from how far away its next use is, how many bytes it frees and how
// long it takes to make it again, weighed by a key for each item; searching over keys is another file's business (search.h).
#pragma once

#include <cstdint>
#include <limits>
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

// How far one schedule may go.
struct Effort {
  double most_seconds = std::numeric_limits<double>::infinity();
  std::size_t most_replays = std::numeric_limits<std::size_t>::max();
  std::int64_t most_looks = std::numeric_limits<std::int64_t>::max();  // at items, whatever for
  // Whether what cannot run again may go before everything that could be made from it is read for the last time. What is made
  // from it then has to stay.
  bool last_resort = false;
};

// What stays the same from one schedule of a problem to the next.
class Evictor {
 public:
  // The problem outlives this.
  explicit Evictor(const Problem& problem);
  // Nothing where the bytes do not suffice for this way to choose, or the effort does not. `looks` grows by those it took.
  std::optional<Schedule> schedule(std::int64_t bytes, const Weights& weights, std::span<const double> keys,
                                   const Effort& effort = {}, std::int64_t* looks = nullptr) const;
  double seconds() const { return seconds_; }  // of every op once

 private:
  friend class Eviction;
  const Problem& problem_;
  std::vector<int> maker_;                // by item: the op that writes it; -1: there from the beginning
  std::vector<std::vector<int>> uses_;    // by item: ops that read it, ascending
  std::vector<int> last_;                 // by item: the last op that could need it, through whatever runs again
  std::vector<std::vector<int>> end_;     // by op: the items that it is the last one to need
  std::vector<std::vector<int>> expire_;  // by op: the items that cannot be made again from it on
  std::vector<double> begins_;            // by op: seconds before it where every op runs once
  double seconds_ = 0;
};

}  // namespace plimsoll::replays
