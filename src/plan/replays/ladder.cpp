#include "plan/replays/ladder.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace plimsoll::replays {
namespace {

constexpr int kFewest = 4, kMost = 8, kPerLevel = 16;  // numbers of levels; schedules per level above which the levels double
constexpr int kHalves = 6, kPartOfHalf = 24;           // bisections between two levels, each with 1/24 of the work

class Ladder {
 public:
  Ladder(const Problem& problem, const Outcome& keep, const Work& work)
      : problem_(problem),
        keep_(keep),
        least_(largest_working_set(problem)),
        all_(work),
        search_(problem, [this](const Schedule& schedule) { see(schedule); }) {
    while (levels_ < kMost && work.schedules / levels_ > kPerLevel) levels_ *= 2;
    while (first_ < levels_ && level(first_) < least_) ++first_;
  }

  std::optional<Schedule> fastest(std::int64_t bytes) {
    if (bytes < least_) return {};
    int below = first_ - 1;
    for (; below + 1 < levels_ && level(below + 1) <= bytes; ++below) climb(level(below + 1));
    std::int64_t low = level(below), high = level(below + 1);
    if (bytes == low) return known(bytes);
    std::optional<Schedule> above = Schedule{{}, keep_.seconds};
    if (below + 1 < levels_) {
      climb(high);
      above = known(high);
    }
    for (int halves = 0; halves < kHalves && above && high - low > 1; ++halves) {
      least_seconds_ = above->seconds;
      const std::int64_t middle = low + (high - low) / 2;
      if (middle >= least_) look(middle, 1, kPartOfHalf);
      if (bytes == middle) return known(bytes);
      if (bytes > middle) {
        low = middle;
      } else {
        high = middle;
        above = known(high);
      }
    }
    return above ? known(bytes) : std::nullopt;
  }

 private:
  std::int64_t level(int number) const { return keep_.peak / levels_ * number + keep_.peak % levels_ * number / levels_; }

  // Every level gets an equal part of the work, and the parts of the levels below it that found nothing.
  void climb(std::int64_t bytes) { missed_ = look(bytes, missed_ + 1, levels_) ? 0 : missed_ + 1; }

  // Searches with `parts` / `of` of the work; returns true if a schedule is found.
  bool look(std::int64_t bytes, int parts, int of) {
    Work work;
    work.schedules = std::max(static_cast<int>(std::int64_t{all_.schedules} * parts / of), 1);
    work.looks = std::max<std::int64_t>(all_.looks / of * parts, 1);
    if (search_.fastest(bytes, work)) return true;
    work.last_resort = true;
    return search_.fastest(bytes, work).has_value();
  }

  // Only schedules that the judge accepts count.
  void see(const Schedule& schedule) {
    const std::optional<Outcome> outcome = evaluate(problem_, schedule.replays);
    if (!outcome || outcome->seconds < least_seconds_) return;
    auto next = known_.upper_bound(outcome->peak);
    if (next != known_.begin() && std::prev(next)->second.seconds <= outcome->seconds) return;
    known_.insert_or_assign(outcome->peak, Schedule{schedule.replays, outcome->seconds});
    next = known_.upper_bound(outcome->peak);
    while (next != known_.end() && next->second.seconds >= outcome->seconds) next = known_.erase(next);
  }

  std::optional<Schedule> known(std::int64_t bytes) const {
    const auto above = known_.upper_bound(bytes);
    return above == known_.begin() ? std::nullopt : std::optional(std::prev(above)->second);
  }

  const Problem& problem_;
  const Outcome keep_;
  const std::int64_t least_;
  const Work all_;
  int levels_ = kFewest, first_ = 1;  // the last level keeps everything; the first is at least `least_`
  int missed_ = 0;                    // number of levels since the last schedule
  double least_seconds_ = 0;
  std::map<std::int64_t, Schedule> known_;  // by peak: each is faster than all with lower peaks
  Search search_;
};

}  // namespace

std::optional<Schedule> schedule_within(const Problem& problem, const Outcome& keep, std::int64_t bytes, const Work& work) {
  if (bytes >= keep.peak) return Schedule{{}, keep.seconds};
  return Ladder(problem, keep, work).fastest(bytes);
}

}  // namespace plimsoll::replays
