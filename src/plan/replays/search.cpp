#include "plan/replays/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace plimsoll::replays {
namespace {

constexpr std::array kWeights{Weights{1, 1, 1}, Weights{1, 0, 0}, Weights{0, 1, 1},   Weights{1, 0, 1},
                              Weights{2, 1, 1}, Weights{1, 1, 0}, Weights{0.5, 1, 1}, Weights{0, 0, 1}};

}  // namespace

void Search::take(State& state, std::int64_t bytes, const Weights& weights, const std::vector<double>& keys) const {
  const double most = state.best ? state.best->seconds : std::numeric_limits<double>::infinity();
  std::optional<Schedule> found = evictor_.schedule(bytes, weights, keys, most);
  if (found && found->seconds <= most) state = {std::move(found), weights, keys};
}

// One to three keys, up or down by a factor of up to 30.
std::vector<double> Search::changed(const std::vector<double>& keys) {
  constexpr double kSteps = 1024, kFarthest = 3.4;
  std::vector<double> result = keys;
  for (std::size_t left = 1 + random_() % 3; left > 0; --left) {
    const double step = static_cast<double>(random_() % static_cast<unsigned>(2 * kSteps)) / kSteps - 1;
    result[random_() % result.size()] *= std::exp(kFarthest * step);
  }
  return result;
}

std::optional<Schedule> Search::fastest(std::int64_t bytes, int work) {
  if (keys_.empty()) return Schedule{{}, evictor_.seconds()};
  const std::vector<double> equal(keys_.size(), 1.0);
  State state{{}, weights_, keys_};
  take(state, bytes, weights_, keys_);
  for (const Weights& weights : kWeights) {
    if (work-- > 0) take(state, bytes, weights, equal);
  }
  for (; work > 0 && !(state.best && state.best->replays.empty()); --work) {
    take(state, bytes, state.weights, changed(state.keys));
  }
  if (state.best) {
    keys_ = state.keys;
    weights_ = state.weights;
  }
  return state.best;
}

}  // namespace plimsoll::replays
