#include "plan/replays/ladder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace plimsoll::replays {
namespace {

constexpr int kFewest = 4, kMost = 8, kPerLevel = 16;  // levels, and schedules for each that make it worth to have more
constexpr int kHalves = 6, kPartOfHalf = 12;           // between two levels, each with such a part of the work

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
    while (below + 1 < levels_ && level(below + 1) <= bytes) look(level(++below), share_of(below));
    std::int64_t low = level(below), high = level(below + 1);
    if (bytes == low) return known(bytes);
    std::optional<Schedule> above = Schedule{{}, keep_.seconds};
    if (below + 1 < levels_) {
      look(high, share_of(below + 1));
      above = known(high);
    }
    for (int halves = 0; halves < kHalves && above && high - low > 1; ++halves) {
      least_seconds_ = above->seconds;
      const std::int64_t middle = low + (high - low) / 2;
      if (middle >= least_) look(middle, 1.0 / kPartOfHalf);
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

  // Up to a quarter of the levels goes half of the work: little memory is hard. Where there is work for a few schedules each
  // level gets as much.
  double share_of(int number) const {
    const double levels = levels_ - first_ + 1, place = number - first_ + 1;
    return levels_ == kFewest ? 1 / levels : std::sqrt(place / levels) - std::sqrt((place - 1) / levels);
  }

  void look(std::int64_t bytes, double share) {
    Work work;
    work.schedules = std::max(static_cast<int>(share * all_.schedules), 1);
    work.looks = std::max<std::int64_t>(static_cast<std::int64_t>(share * static_cast<double>(all_.looks)), 1);
    if (search_.fastest(bytes, work)) return;
    work.last_resort = true;
    search_.fastest(bytes, work);
  }

  // Only what the judge accepts counts.
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
  int levels_ = kFewest, first_ = 1;  // the last of them keeps everything; the first is not below `least_`
  double least_seconds_ = 0;
  std::map<std::int64_t, Schedule> known_;  // by peak: each faster than all with lower ones
  Search search_;
};

}  // namespace

std::optional<Schedule> schedule_within(const Problem& problem, const Outcome& keep, std::int64_t bytes, const Work& work) {
  if (bytes >= keep.peak) return Schedule{{}, keep.seconds};
  return Ladder(problem, keep, work).fastest(bytes);
}

}  // namespace plimsoll::replays
