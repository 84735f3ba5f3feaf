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
      last = std::max(last, problem.ops[at(op)].replayable ? std::min(last_[at(item)], problem.ops[at(op)].until) : op);
    for (const int item : problem.ops[at(op)].reads) last_[at(item)] = std::max(last_[at(item)], last);
  }
}

// One run through the ops.
class Eviction {
 public:
  Eviction(const Evictor& fixed, std::int64_t bytes, const Weights& weights, std::span<const double> keys, const Effort& effort)
      : fixed_(fixed),
        problem_(fixed.problem_),
        bytes_(bytes),
        weights_(weights),
        keys_(keys),
        effort_(effort),
        careful_(fixed.limited_ || effort.last_resort),
        live_(problem_.items.size(), 0),
        locked_(problem_.items.size(), 0),
        passed_(problem_.items.size(), 0),
        needed_(problem_.items.size(), 0),
        needed_stamp_(problem_.items.size(), 0),
        cost_(problem_.items.size(), 0),
        cost_stamp_(problem_.items.size(), 0),
        deadline_(careful_ ? problem_.items.size() : 0, 0),
        deadline_stamp_(careful_ ? problem_.items.size() : 0, 0) {
    schedule_.seconds = fixed.seconds_;
  }

  std::optional<Schedule> run() {
    for (now_ = 0; now_ < static_cast<int>(problem_.ops.size()); ++now_) {
      if (!execute(now_)) return {};
    }
    return std::move(schedule_);
  }

  std::int64_t looks() const { return looks_; }

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
    looks_ += static_cast<std::int64_t>(fixed_.uses_[at(item)].size()) + 1;
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
    ++looks_;
    cost_[at(item)] = 0;
    const int maker = fixed_.maker_[at(item)];
    double seconds = op(maker).seconds;
    for (const int read : op(maker).reads) {
      if (!live_[at(read)] && fixed_.maker_[at(read)] != kNone) seconds += cost(read);
    }
    return cost_[at(item)] = seconds;
  }

  // The last op before which an item that is gone could be made again, from what is there now. kNone: none.
  int deadline(int item) {
    if (deadline_stamp_[at(item)] == stamp_) return deadline_[at(item)];
    deadline_stamp_[at(item)] = stamp_;
    ++looks_;
    const Op& maker = op(fixed_.maker_[at(item)]);
    int latest = maker.replayable ? maker.until : kNone;
    for (const int read : maker.reads) {
      if (!live_[at(read)] && fixed_.maker_[at(read)] != kNone) latest = std::min(latest, deadline(read));
    }
    return deadline_[at(item)] = latest;
  }

  bool can_be_made_again(int item) const {
    const Op& maker = op(fixed_.maker_[at(item)]);
    return maker.replayable && now_ <= maker.until;
  }

  // Whether an item could be made again by the time that it is needed.
  bool may_go(int item) {
    if (!can_be_made_again(item)) return effort_.last_resort && needed(item) == kNever;
    return !careful_ || needed(item) == kNever || needed(item) <= deadline(item);
  }

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
    looks_ += static_cast<std::int64_t>(here_.size());
    for (std::size_t i = here_.size(); i-- > 0;) {
      if (locked_[at(here_[i])] == 0 && dead(here_[i])) drop(i);
    }
  }

  bool make_room(std::int64_t wanted) {
    if (held_ + wanted <= bytes_) return true;
    drop_dead();
    while (held_ + wanted > bytes_) {
      ++stamp_;
      looks_ += static_cast<std::int64_t>(here_.size());
      double most = -1;
      std::size_t chosen = 0;
      for (std::size_t i = 0; i < here_.size(); ++i) {
        const int item = here_[i];
        if (locked_[at(item)] > 0 || problem_.items[at(item)] == 0 || !may_go(item)) continue;
        const double worth = can_be_made_again(item) ? keys_[at(item)] * worth_of(item) : 0;
        if (worth <= most) continue;
        most = worth;
        chosen = i;
      }
      if (most < 0 || looks_ > effort_.most_looks) return false;
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

  // What an op's results take over from what it reads last: items.
  std::vector<int> taken_over(const Op& what, bool first) {
    std::vector<int> taken;
    if (!first || what.overwrites.empty()) return taken;
    from_ = now_ + 1;
    ++stamp_;
    for (const int result : what.writes) {
      for (const auto& [read, written] : what.overwrites) {
        if (written != result || problem_.items[at(read)] != problem_.items[at(result)]) continue;
        if (locked_[at(read)] > 1 || std::find(taken.begin(), taken.end(), read) != taken.end() || !dead(read)) continue;
        taken.push_back(read);
        break;
      }
    }
    from_ = now_;
    ++stamp_;
    return taken;
  }

  std::int64_t bytes_of(const std::vector<int>& items) const {
    std::int64_t bytes = 0;
    for (const int item : items) bytes += problem_.items[at(item)];
    return bytes;
  }

  // Runs an op whose inputs are there. Results that are there already stay, and are made anew.
  bool perform(int index, bool first) {
    const Op& what = op(index);
    std::int64_t wanted = what.scratch;
    std::vector<int> there;
    for (const int item : what.writes) {
      if (live_[at(item)]) there.push_back(item);
      wanted += live_[at(item)] ? 0 : problem_.items[at(item)];
    }
    for (const int item : there) ++locked_[at(item)];
    // What goes to make room may need again what was to be taken over.
    std::vector<int> taken = taken_over(what, first);
    for (bool enough = false; !enough;) {
      if (!make_room(wanted - bytes_of(taken))) return false;
      std::vector<int> still = held_ + wanted > bytes_ ? taken_over(what, first) : std::vector<int>{};
      enough = held_ + wanted - bytes_of(still) <= bytes_;
      taken = std::move(still);
    }
    for (const int item : there) --locked_[at(item)];
    if (first) taken_ = std::move(taken);
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
    if (!can_be_made_again(item)) return false;
    if (!bring_inputs(op(maker)) || !perform(maker, false)) return false;
    let_go(op(maker));
    schedule_.replays.push_back({maker, now_});
    schedule_.seconds += op(maker).seconds;
    return schedule_.seconds <= effort_.most_seconds && looks_ <= effort_.most_looks;
  }

  bool execute(int index) {
    from_ = index;
    taken_.clear();
    const Op& what = op(index);
    if (!bring_inputs(what) || !perform(index, true)) return false;
    let_go(what);
    from_ = index + 1;
    // What dies here may go at once, and what a result has taken over is gone.
    ++stamp_;
    for (std::size_t i = here_.size(); i-- > 0;) {
      if (std::find(taken_.begin(), taken_.end(), here_[i]) != taken_.end()) drop(i);
    }
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
  const Effort effort_;
  const bool careful_;  // what is gone may be impossible to make again
  std::int64_t looks_ = 0;
  int now_ = 0, from_ = 0;  // the op whose turn it is; uses from this op on still come
  std::vector<char> live_;
  std::vector<int> locked_;
  std::vector<std::size_t> passed_;
  std::vector<int> here_;   // live items
  std::int64_t held_ = 0;   // their bytes
  std::vector<int> taken_;  // of the op whose turn it is: what it had to take over
  // Known for the moment: a stamp says for which.
  std::int64_t stamp_ = 1;
  std::vector<int> needed_;
  std::vector<std::int64_t> needed_stamp_;
  std::vector<double> cost_;
  std::vector<std::int64_t> cost_stamp_;
  std::vector<int> deadline_;
  std::vector<std::int64_t> deadline_stamp_;
  Schedule schedule_;
};

std::optional<Schedule> Evictor::schedule(std::int64_t bytes, const Weights& weights, std::span<const double> keys,
                                          const Effort& effort, std::int64_t* looks) const {
  Eviction eviction(*this, bytes, weights, keys, effort);
  std::optional<Schedule> found = eviction.run();
  if (looks != nullptr) *looks += eviction.looks();
  return found;
}

}  // namespace plimsoll::replays
