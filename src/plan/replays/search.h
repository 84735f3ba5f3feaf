// Searches for the fastest schedule within a number of bytes. It begins with schedules by eviction (eviction.h) from several
// weights. Then it changes keys of single items at random; a change stays if the schedule becomes no slower, or only slightly
// slower early in the search. Counted work and a fixed seed give the same answers on every machine.
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

// Limits of the search for one number of bytes.
struct Work {
  int schedules = 0;
  std::int64_t looks = std::numeric_limits<std::int64_t>::max();  // examinations of items, all schedules together
  bool last_resort = false;                                       // Effort::last_resort
};

class Search {
 public:
  // The problem outlives this. `seen` is called with every schedule found, also if it is not the fastest.
  explicit Search(const Problem& problem, std::function<void(const Schedule&)> seen = {});

  // None if no tried schedule fits. Begins with the best keys of the last call, so that a small change of the bytes costs little
  // work.
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
  std::vector<std::vector<int>> alike_;  // groups of several items with equal bytes and seconds
  const Evictor evictor_;
  std::vector<Choice> choices_;  // sets of items that stay for the backward pass, by falling bytes; empty until needed
  bool begun_ = false;
  std::vector<double> keys_;  // the best keys of the last call
  Weights weights_;
  std::mt19937 random_{20240229};
};

}  // namespace plimsoll::replays
