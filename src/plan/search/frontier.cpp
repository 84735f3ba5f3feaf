#include "plan/search/frontier.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace plimsoll {
namespace {

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

double place(const std::vector<Candidate>& ladder, std::size_t index) {
  const auto bytes = [&](std::size_t i) { return std::log(static_cast<double>(ladder[i].held().n)); };
  const auto seconds = [&](std::size_t i) { return ladder[i].update_seconds; };
  const std::size_t last = ladder.size() - 1;
  return share(bytes(0) - bytes(index), bytes(0) - bytes(last)) + share(seconds(index) - seconds(0), seconds(last) - seconds(0));
}

}  // namespace

void Front::add(std::span<const Candidate> candidates) {
  for (std::size_t i = 0; i < kMeasures.size(); ++i) {
    for (const Candidate& each : candidates) add(seconds_[i], (each.*kMeasures[i])(), each.update_seconds);
  }
}

void Front::add(Seconds& front, Bytes bytes, double seconds) {
  auto above = front.upper_bound(bytes);
  if (above != front.begin() && std::prev(above)->second <= seconds) return;
  while (above != front.end() && above->second >= seconds) above = front.erase(above);
  front.insert_or_assign(above, bytes, seconds);
}

bool Front::covers(std::span<const Candidate> candidates, double slack) const {
  for (std::size_t i = 0; i < kMeasures.size(); ++i) {
    const auto covered = [&](const Candidate& each) {
      const auto above = seconds_[i].upper_bound((each.*kMeasures[i])());
      return above != seconds_[i].begin() && std::prev(above)->second <= (1 + slack) * each.update_seconds;
    };
    if (!std::ranges::all_of(candidates, covered)) return false;
  }
  return true;
}

std::vector<std::size_t> spread_rungs(const std::vector<Candidate>& ladder, int count) {
  std::vector<std::size_t> chosen;
  if (ladder.size() < 3) return chosen;
  const double length = place(ladder, ladder.size() - 1);
  int step = 1;
  for (std::size_t i = 1; i + 1 < ladder.size() && step <= count; ++i) {
    if (place(ladder, i) < length * step / (count + 1)) continue;
    chosen.push_back(i);
    // A gap of the ladder may span several steps; one rung stands for all of them.
    while (step <= count && place(ladder, i) >= length * step / (count + 1)) ++step;
  }
  return chosen;
}

}  // namespace plimsoll
