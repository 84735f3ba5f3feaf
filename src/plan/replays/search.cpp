#include "plan/replays/search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <utility>

namespace plimsoll::replays {
namespace {

constexpr std::array kWeights{Weights{1, 1, 1}, Weights{1, 0, 0}, Weights{0, 1, 1},   Weights{1, 0, 1},
                              Weights{2, 1, 1}, Weights{1, 1, 0}, Weights{0.5, 1, 1}, Weights{0, 0, 1}};

constexpr int kSlowest = 10;                 // upper bound for seconds and runs, relative to keeping everything
constexpr double kSlack = 0.01;              // of the seconds beyond those of keeping everything
constexpr int kChoices = 8, kFewWalks = 60;  // number of tried choices, the largest within the bytes; least work for them
constexpr double kLast = 1e-3;               // key of items that stay: they go last
constexpr int kRounds = 3, kFewest = 300;    // walks from different weights; least work for several walks

// Sets of items that may stay for the backward pass, without regard to the other items.
std::vector<Choice> choices_between_passes(const Problem& problem) {
  constexpr std::size_t kMost = 24;
  const auto backward = [](const Op& op) { return op.pass == Pass::backward; };
  const auto turn = std::ranges::find_if(problem.ops, backward) - problem.ops.begin();
  Exchange exchange{static_cast<int>(turn), {}, std::vector<char>(problem.items.size(), 1)};
  for (const Op& op : std::span(problem.ops).first(at(exchange.turn))) exchange.again.push_back(op.replayable ? 1 : 0);
  return best_choices(problem, exchange, kMost);
}

}  // namespace

Search::Search(const Problem& problem, std::function<void(const Schedule&)> seen)
    : problem_(problem), seen_(std::move(seen)), evictor_(problem), keys_(problem.items.size(), 1.0) {
  std::map<std::pair<std::int64_t, double>, std::vector<int>> alike;
  for (const Op& op : problem.ops) {
    for (const int item : op.writes) {
      if (op.replayable) alike[{problem.items[static_cast<std::size_t>(item)], op.seconds}].push_back(item);
    }
  }
  for (auto& [what, items] : alike) {
    if (items.size() > 1) alike_.push_back(std::move(items));
  }
}

// Scales one to three keys by a factor between 1/30 and 30. Half of them belong to ops that run again, on average.
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
    if (!alike_.empty() && random_() % 5 == 0) {
      for (const int each : alike_[random_() % alike_.size()])
        state.keys[static_cast<std::size_t>(each)] *= std::exp(kFarthest * step);
    } else {
      state.keys[item] *= std::exp(kFarthest * step);
    }
  }
}

std::optional<Schedule> Search::fastest(std::int64_t bytes, Work given) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::int64_t looks = 0;
  const auto tried = [&](State state, double most) -> std::optional<State> {
    if (looks >= given.looks) return {};
    const Effort effort{most, kSlowest * problem_.ops.size(), given.looks - looks, given.last_resort};
    std::optional<Schedule> found = evictor_.schedule(bytes, state.weights, state.keys, effort, &looks);
    if (!found) return {};
    if (seen_) seen_(*found);
    state.schedule = *std::move(found);
    return state;
  };
  if (keys_.empty()) {
    std::optional<State> state = tried({}, infinity);
    return state ? std::optional(std::move(state->schedule)) : std::nullopt;
  }
  int work = given.schedules;
  std::vector<State> starts;
  const auto start = [&](const Weights& weights, std::vector<double> keys) {
    if (auto state = tried({{}, weights, std::move(keys)}, kSlowest * evictor_.seconds())) starts.push_back(*std::move(state));
  };
  if (begun_) start(weights_, keys_);
  for (const Weights& weights : kWeights) {
    if (work-- > 0) start(weights, std::vector<double>(keys_.size(), 1.0));
  }
  if (work > kFewWalks && choices_.empty()) choices_ = choices_between_passes(problem_);
  int fitting = work > kFewWalks ? kChoices : 0;
  for (const Choice& choice : choices_) {
    if (choice.bytes > bytes || fitting-- <= 0 || work-- <= 0) continue;
    std::vector<double> keys(keys_.size(), 1.0);
    for (const int item : choice.stay) keys[at(item)] = kLast;
    start(kWeights.front(), std::move(keys));
  }
  while (starts.empty() && work-- > 0) {
    State state{{}, kWeights[random_() % kWeights.size()], keys_};
    change(state);
    start(state.weights, std::move(state.keys));
  }
  if (starts.empty()) return {};
  std::stable_sort(starts.begin(), starts.end(),
                   [](const State& a, const State& b) { return a.schedule.seconds < b.schedule.seconds; });
  State best = starts.front();
  const int rounds = std::min(work < kFewest ? 1 : kRounds, static_cast<int>(starts.size()));
  for (int round = 0; round < rounds; ++round) {
    walk(starts[static_cast<std::size_t>(round)], best, work / rounds, tried);
  }
  begun_ = true;
  keys_ = best.keys;
  weights_ = best.weights;
  return std::move(best.schedule);
}

// Also accepts slightly slower schedules, fewer towards the end: a key often has to pass through worse values.
template <class Tried>
void Search::walk(State now, State& best, int steps, Tried&& tried) {
  for (int left = steps; left > 0 && !best.schedule.replays.empty(); --left) {
    State next = now;
    change(next);
    const double overhead = now.schedule.seconds - evictor_.seconds();
    const double slack = kSlack * static_cast<double>(left) / steps;
    std::optional<State> found = tried(std::move(next), now.schedule.seconds + slack * overhead);
    if (!found) continue;
    now = *std::move(found);
    if (now.schedule.seconds < best.schedule.seconds) best = now;
  }
}

}  // namespace plimsoll::replays
