#include "plan/replays/eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace plimsoll::replays {
namespace {

constexpr int kNone = -1, kNever = std::numeric_limits<int>::max();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

Evictor::Evictor(const Problem& problem) : problem_(problem), maker_(problem.items.size(), kNone), uses_(problem.items.size()) {
  for (int op = 0; op < static_cast<int>(problem.ops.size()); ++op) {
    begins_.push_back(seconds_);
    seconds_ += problem.ops[at(op)].seconds;
    for (const int item : problem.ops[at(op)].writes) maker_[at(item)] = op;
    for (const int item : problem.ops[at(op)].reads) uses_[at(item)].push_back(op);
  }
  last_.assign(problem.items.size(), kNone);
  for (int op = static_cast<int>(problem.ops.size()); op-- > 0;) {
    int last = op;
    for (const int item : problem.ops[at(op)].writes)
      last = std::max(last, problem.ops[at(op)].replayable ? last_[at(item)] : op);
    for (const int item : problem.ops[at(op)].reads) last_[at(item)] = std::max(last_[at(item)], last);
  }
}

// One run through the ops.
class Eviction {
 public:
  Eviction(const Evictor& fixed, std::int64_t bytes, const Weights& weights, std::span<const double> keys, double most_seconds)
      : fixed_(fixed),
        problem_(fixed.problem_),
        bytes_(bytes),
        weights_(weights),
        keys_(keys),
        most_seconds_(most_seconds),
        live_(problem_.items.size(), 0),
        locked_(problem_.items.size(), 0),
        passed_(problem_.items.size(), 0),
        needed_(problem_.items.size(), 0),
        needed_stamp_(problem_.items.size(), 0),
        cost_(problem_.items.size(), 0),
        cost_stamp_(problem_.items.size(), 0) {
    schedule_.seconds = fixed.seconds_;
  }

  std::optional<Schedule> run() {
    for (now_ = 0; now_ < static_cast<int>(problem_.ops.size()); ++now_) {
      if (!execute(now_)) return {};
    }
    return std::move(schedule_);
  }

 private:
  const Op& op(int index) const { return problem_.ops[at(index)]; }

  // The next use of an item by an op in its own place, this one or later.
  int next_use(int item) {
    const std::vector<int>& uses = fixed_.uses_[at(item)];
    std::size_t& passed = passed_[at(item)];
    while (passed < uses.size() && uses[passed] < from_) ++passed;
    return passed < uses.size() ? uses[passed] : kNever;
  }

  // The same, or that of something that is gone and would be made from it.
  int needed(int item) {
    if (needed_stamp_[at(item)] == stamp_) return needed_[at(item)];
    needed_stamp_[at(item)] = stamp_;
    needed_[at(item)] = next_use(item);
    int soonest = needed_[at(item)];
    for (const int user : fixed_.uses_[at(item)]) {
      if (user >= now_) break;
      if (!op(user).replayable) continue;
      for (const int made : op(user).writes) {
        if (!live_[at(made)]) soonest = std::min(soonest, needed(made));
      }
    }
    return needed_[at(item)] = soonest;
  }

  // Seconds to make an item again from what is there.
  double cost(int item) {
    if (cost_stamp_[at(item)] == stamp_) return cost_[at(item)];
    cost_stamp_[at(item)] = stamp_;
    cost_[at(item)] = 0;
    const int maker = fixed_.maker_[at(item)];
    double seconds = op(maker).seconds;
    for (const int read : op(maker).reads) {
      if (!live_[at(read)] && fixed_.maker_[at(read)] != kNone) seconds += cost(read);
    }
    return cost_[at(item)] = seconds;
  }

  bool can_be_made_again(int item) const { return op(fixed_.maker_[at(item)]).replayable; }

  // Nothing needs it any more. What cannot be made again stays for whatever could be made from it.
  bool dead(int item) { return can_be_made_again(item) ? needed(item) == kNever : fixed_.last_[at(item)] < from_; }

  void drop(std::size_t place) {
    const int item = here_[place];
    live_[at(item)] = 0;
    held_ -= problem_.items[at(item)];
    here_[place] = here_.back();
    here_.pop_back();
  }

  // Without what nothing needs any more.
  void drop_dead() {
    ++stamp_;
    for (std::size_t i = here_.size(); i-- > 0;) {
      if (locked_[at(here_[i])] == 0 && dead(here_[i])) drop(i);
    }
  }

  bool make_room(std::int64_t wanted) {
    if (held_ + wanted <= bytes_) return true;
    drop_dead();
    while (held_ + wanted > bytes_) {
      ++stamp_;
      double most = -1;
      std::size_t chosen = 0;
      for (std::size_t i = 0; i < here_.size(); ++i) {
        const int item = here_[i];
        if (locked_[at(item)] > 0 || problem_.items[at(item)] == 0 || !can_be_made_again(item)) continue;
        const double worth = keys_[at(item)] * worth_of(item);
        if (worth <= most) continue;
        most = worth;
        chosen = i;
      }
      if (most < 0) return false;
      drop(chosen);
    }
    return true;
  }

  double worth_of(int item) {
    const int use = needed(item);
    const double until = use == kNever ? fixed_.seconds_ : fixed_.begins_[at(use)];
    const double distance = std::max(until - fixed_.begins_[at(now_)], fixed_.seconds_ * 1e-9);
    const auto bytes = static_cast<double>(problem_.items[at(item)]);
    return std::pow(distance, weights_.distance) * std::pow(bytes, weights_.bytes) /
           std::pow(std::max(cost(item), fixed_.seconds_ * 1e-9), weights_.seconds);
  }

  // What an op's results take over from what it reads last.
  std::int64_t taken_over(const Op& what, bool first) {
    std::int64_t bytes = 0;
    std::vector<int> results = what.writes;
    for (const int read : what.overwrites) {
      if (!first || locked_[at(read)] > 1) continue;
      from_ = now_ + 1;
      ++stamp_;
      const bool dies = dead(read);
      from_ = now_;
      ++stamp_;
      if (!dies) continue;
      const auto result = std::find_if(results.begin(), results.end(),
                                       [&](int made) { return problem_.items[at(made)] == problem_.items[at(read)]; });
      if (result == results.end()) continue;
      bytes += problem_.items[at(*result)];
      results.erase(result);
    }
    return bytes;
  }

  // Runs an op whose inputs are there.
  bool perform(int index, bool first) {
    const Op& what = op(index);
    std::int64_t wanted = what.scratch;
    for (const int item : what.writes) wanted += live_[at(item)] ? 0 : problem_.items[at(item)];
    if (!make_room(wanted - taken_over(what, first))) return false;
    for (const int item : what.writes) {
      if (live_[at(item)]) continue;
      live_[at(item)] = 1;
      held_ += problem_.items[at(item)];
      here_.push_back(item);
    }
    return true;
  }

  bool bring_inputs(const Op& what) {
    for (const int read : what.reads) {
      if (fixed_.maker_[at(read)] == kNone) continue;
      if (!live_[at(read)] && !make_again(read)) return false;
      ++locked_[at(read)];
    }
    return true;
  }

  void let_go(const Op& what) {
    for (const int read : what.reads) {
      if (fixed_.maker_[at(read)] != kNone) --locked_[at(read)];
    }
  }

  bool make_again(int item) {
    const int maker = fixed_.maker_[at(item)];
    if (!op(maker).replayable) return false;
    if (!bring_inputs(op(maker)) || !perform(maker, false)) return false;
    let_go(op(maker));
    schedule_.replays.push_back({maker, now_});
    schedule_.seconds += op(maker).seconds;
    return schedule_.seconds <= most_seconds_;
  }

  bool execute(int index) {
    from_ = index;
    const Op& what = op(index);
    if (!bring_inputs(what) || !perform(index, true)) return false;
    let_go(what);
    from_ = index + 1;
    // What dies here may go at once: its bytes may be what a result has taken over.
    ++stamp_;
    for (std::size_t i = here_.size(); i-- > 0 && held_ > bytes_;) {
      if (dead(here_[i])) drop(i);
    }
    return true;
  }

  const Evictor& fixed_;
  const Problem& problem_;
  const std::int64_t bytes_;
  const Weights weights_;
  const std::span<const double> keys_;
  const double most_seconds_;
  int now_ = 0, from_ = 0;  // the op whose turn it is; uses from this op on still come
  std::vector<char> live_;
  std::vector<int> locked_;
  std::vector<std::size_t> passed_;
  std::vector<int> here_;  // live items
  std::int64_t held_ = 0;  // their bytes
  // Known for the moment: a stamp says for which.
  std::int64_t stamp_ = 1;
  std::vector<int> needed_;
  std::vector<std::int64_t> needed_stamp_;
  std::vector<double> cost_;
  std::vector<std::int64_t> cost_stamp_;
  Schedule schedule_;
};

std::optional<Schedule> Evictor::schedule(std::int64_t bytes, const Weights& weights, std::span<const double> keys,
                                          double most_seconds) const {
  return Eviction(*this, bytes, weights, keys, most_seconds).run();
}

}  // namespace plimsoll::replays
