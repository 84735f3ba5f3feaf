#include "plan/replays/ladder.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace plimsoll::replays {
namespace {

constexpr int kFewest = 4;  // levels

}  // namespace

// As many levels as there is work for, within bounds.
Ladder::Ladder(const Problem& problem, const Outcome& keep, Work work)
    : problem_(problem),
      keep_(keep),
      least_(largest_working_set(problem)),
      all_(work),
      search_(problem, [this](const Schedule& schedule) { see(schedule); }) {
  constexpr int kMost = 32, kPerLevel = 16;
  levels_ = kFewest;
  while (levels_ < kMost && work.schedules / levels_ > kPerLevel) levels_ *= 2;
  while (first_ < levels_ && level(first_) < least_) ++first_;
}

// Up to a quarter of the levels goes half of it: little memory is hard. Where there is work for a few schedules each level gets
// as much.
Work Ladder::work_at(int number) const {
  const double levels = levels_ - first_ + 1, place = number - first_ + 1;
  const double share = levels_ == kFewest ? 1 / levels : std::sqrt(place / levels) - std::sqrt((place - 1) / levels);
  return {std::max(static_cast<int>(share * all_.schedules), 1),
          std::max<std::int64_t>(static_cast<std::int64_t>(share * static_cast<double>(all_.looks)), 1)};
}

std::int64_t Ladder::level(int number) const { return keep_.peak / levels_ * number + keep_.peak % levels_ * number / levels_; }

// Only what the judge accepts counts.
void Ladder::see(const Schedule& schedule) {
  const std::optional<Outcome> outcome = evaluate(problem_, schedule.replays);
  if (!outcome) return;
  auto next = known_.upper_bound(outcome->peak);
  if (next != known_.begin() && std::prev(next)->second.seconds <= outcome->seconds) return;
  known_.insert_or_assign(outcome->peak, schedule);
  next = known_.upper_bound(outcome->peak);
  while (next != known_.end() && next->second.seconds >= outcome->seconds) next = known_.erase(next);
}

void Ladder::climb() {
  const std::int64_t bytes = level(++climbed_);
  if (climbed_ < first_ || bytes == level(climbed_ - 1)) return;
  Work work = work_at(climbed_);
  if (search_.fastest(bytes, work)) return;
  work.last_resort = true;
  search_.fastest(bytes, work);
}

std::optional<Schedule> Ladder::fastest(std::int64_t bytes) {
  if (bytes >= keep_.peak) return Schedule{{}, keep_.seconds};
  while (climbed_ < levels_ - 1 && level(climbed_) < bytes) climb();
  const auto above = known_.upper_bound(bytes);
  if (above == known_.begin()) return {};
  return std::prev(above)->second;
}

}  // namespace plimsoll::replays
