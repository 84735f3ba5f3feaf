#include "plan/replays/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace plimsoll::replays {
namespace {

constexpr std::array kWeights{Weights{1, 1, 1}, Weights{1, 0, 0}, Weights{0, 1, 1},   Weights{1, 0, 1},
                              Weights{2, 1, 1}, Weights{1, 1, 0}, Weights{0.5, 1, 1}, Weights{0, 0, 1}};

constexpr double kSlack = 0.03;  // of the seconds beyond those of keeping everything

}  // namespace

// One to three keys, up or down by a factor of up to 30: of what the schedule makes again as often as of anything.
void Search::change(State& state) {
  constexpr double kSteps = 1024, kFarthest = 3.4;
  const std::vector<Replay>& replays = state.schedule.replays;
  for (std::size_t left = 1 + random_() % 3; left > 0; --left) {
    std::size_t item = random_() % state.keys.size();
    if (!replays.empty() && random_() % 2 == 0) {
      const Op& op = problem_.ops[static_cast<std::size_t>(replays[random_() % replays.size()].op)];
      if (!op.writes.empty()) item = static_cast<std::size_t>(op.writes[random_() % op.writes.size()]);
    }
    const double step = static_cast<double>(random_() % static_cast<unsigned>(2 * kSteps)) / kSteps - 1;
    state.keys[item] *= std::exp(kFarthest * step);
  }
}

// What is a little slower than what the search stands at is taken as well, ever less so: a single key often has to go the wrong
// way first.
std::optional<Schedule> Search::fastest(std::int64_t bytes, int work) {
  if (keys_.empty()) return Schedule{{}, evictor_.seconds()};
  const double infinity = std::numeric_limits<double>::infinity();
  std::optional<State> best, now;
  const auto try_out = [&](State state, double most) {
    std::optional<Schedule> found = evictor_.schedule(bytes, state.weights, state.keys, most);
    if (!found) return false;
    state.schedule = *std::move(found);
    now = std::move(state);
    if (!best || now->schedule.seconds < best->schedule.seconds) best = now;
    return true;
  };
  try_out({{}, weights_, keys_}, infinity);
  for (const Weights& weights : kWeights) {
    if (work-- > 0) try_out({{}, weights, std::vector<double>(keys_.size(), 1.0)}, best ? best->schedule.seconds : infinity);
  }
  now = best;
  const int steps = work;
  for (; work > 0 && !(best && best->schedule.replays.empty()); --work) {
    State next = now ? *now : State{{}, kWeights[random_() % kWeights.size()], keys_};
    change(next);
    const double overhead = now ? now->schedule.seconds - evictor_.seconds() : 0;
    const double slack = kSlack * static_cast<double>(work) / steps;
    try_out(std::move(next), now ? now->schedule.seconds + slack * overhead : infinity);
  }
  if (!best) return {};
  keys_ = best->keys;
  weights_ = best->weights;
  return std::move(best->schedule);
}

}  // namespace plimsoll::replays
