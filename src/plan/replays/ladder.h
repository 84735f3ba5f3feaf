// Schedules for any number of bytes out of one search: up a ladder of levels, each of which is searched with the same work
// whatever is asked for. An answer is the fastest of all schedules seen up to the first level that has the bytes, so that more
// bytes are never slower.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "plan/replays/search.h"

namespace plimsoll::replays {

class Ladder {
 public:
  // The problem outlives this; `keep` is its outcome without replays. `work` is that of all levels together.
  Ladder(const Problem& problem, const Outcome& keep, Work work);

  // Nothing where no schedule is known. Where keeping everything fits, nothing runs again.
  std::optional<Schedule> fastest(std::int64_t bytes);

 private:
  void see(const Schedule& schedule);
  std::int64_t level(int number) const;
  Work work_at(int number) const;
  void climb();

  const Problem& problem_;
  const Outcome keep_;
  const std::int64_t least_;
  const Work all_;
  int levels_ = 0, first_ = 1;  // how many there would be with keeping everything; the first that is not below `least_`
  Search search_;
  int climbed_ = 0;                         // the highest level that has been searched
  std::map<std::int64_t, Schedule> known_;  // by peak: each faster than all with lower ones
};

}  // namespace plimsoll::replays
