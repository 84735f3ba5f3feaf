// Looks for the fastest schedule within a number of bytes: schedules by eviction (eviction.h) from several weights, then keys of
// single items are changed at random, and what is no slower is kept. Counted work and a fixed seed: the same problem has the same
// answers on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "plan/replays/eviction.h"
#include "plan/replays/exchange.h"

namespace plimsoll::replays {

// How much is tried for one number of bytes.
struct Work {
  int schedules = 0;
  std::int64_t looks = std::numeric_limits<std::int64_t>::max();  // at items, of all schedules together
  bool last_resort = false;                                       // see Effort
};

class Search {
 public:
  // The problem outlives this. `seen` is told of every schedule that comes out, also of those that are not the fastest.
  explicit Search(const Problem& problem, std::function<void(const Schedule&)> seen = {});

  // Nothing where no schedule that is tried fits. Begins with the keys that were best the last time, so that a little less or
  // more memory is a little more work.
  std::optional<Schedule> fastest(std::int64_t bytes, Work work);

 private:
  struct State {
    Schedule schedule;
    Weights weights;
    std::vector<double> keys;
  };

  void change(State& state);
  template <class Tried>
  void walk(State now, State& best, int steps, Tried&& tried);

  const Problem& problem_;
  const std::function<void(const Schedule&)> seen_;
  std::vector<std::vector<int>> alike_;  // items of the same bytes and seconds, where there are several
  const Evictor evictor_;
  std::vector<Choice> choices_;  // of what stays for the backward pass, by falling bytes; empty until there is work for them
  bool begun_ = false;
  std::vector<double> keys_;  // the best of the last time
  Weights weights_;
  std::mt19937 random_{20240229};
};

}  // namespace plimsoll::replays
