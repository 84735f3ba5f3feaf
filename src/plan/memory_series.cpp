#include "plan/memory_series.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "plan/passes/paging.h"

namespace plimsoll {
namespace {

using Levels = std::vector<std::int64_t>;  // bytes, one per step of a phase

std::map<std::string, Levels> levels_of(const Plan& plan, Phase phase) {
  const StepRange range = plan.timeline.of(phase);
  const auto length = static_cast<std::size_t>(range.end - range.begin);
  std::map<std::string, Levels> owners;
  for (const Buffer& buffer : plan.lifetimes.buffers) {
    const int begin = std::max(buffer.begin_in(phase), range.begin), end = std::min(buffer.end, range.end);
    if (begin >= end) continue;
    Levels& levels = owners.try_emplace(buffer.owner, length + 1, 0).first->second;
    levels[static_cast<std::size_t>(begin - range.begin)] += buffer.bytes.n;
    levels[static_cast<std::size_t>(end - range.begin)] -= buffer.bytes.n;
  }
  for (auto& [owner, levels] : owners) {
    std::partial_sum(levels.begin(), levels.end(), levels.begin());
    levels.pop_back();
  }
  return owners;
}

std::size_t greatest(const Levels& levels) { return static_cast<std::size_t>(std::ranges::max_element(levels) - levels.begin()); }

// The points of a phase, from its first step on.
std::vector<std::size_t> points_of(const std::map<std::string, Levels>& owners, const Levels& sum, std::size_t most) {
  if (most == kEveryStep) {
    std::vector<std::size_t> all(sum.size());
    std::iota(all.begin(), all.end(), 0U);
    return all;
  }
  std::vector<std::size_t> changes{0};
  for (std::size_t step = 1; step < sum.size(); ++step) {
    const bool last = step + 1 == sum.size();
    if (last || std::ranges::any_of(owners, [&](const auto& each) { return each.second[step] != each.second[step - 1]; })) {
      changes.push_back(step);
    }
  }
  if (changes.size() <= most) return changes;
  std::set<std::size_t> points{0, sum.size() - 1, greatest(sum)};
  for (const auto& [owner, levels] : owners) points.insert(greatest(levels));
  ensure(points.size() + 2 <= most, "memory series", "there are more owners than points");
  const std::size_t parts = (most - points.size()) / 2;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto begin = changes.begin() + static_cast<std::ptrdiff_t>(changes.size() * part / parts);
    const auto end = changes.begin() + static_cast<std::ptrdiff_t>(changes.size() * (part + 1) / parts);
    const auto by_sum = [&](std::size_t a, std::size_t b) { return sum[a] < sum[b]; };
    points.insert({*std::min_element(begin, end, by_sum), *std::max_element(begin, end, by_sum)});
  }
  return {points.begin(), points.end()};
}

// Persistent values past the first tier keep their places through the whole run.
std::vector<TierSeries> stored_series(const Plan& plan, std::size_t points) {
  std::vector<std::map<std::string, Bytes>> owners(plan.tiers.size());
  for (const Value& value : plan.graph.values) {
    if (!value.persistent() || value.tier == 0) continue;
    owners.at(value.tier)[std::string(name(value.role))] += align_up(value.bytes(), kStoredAlignment);
  }
  std::vector<TierSeries> tiers;
  for (std::size_t tier = 1; tier < owners.size(); ++tier) {
    if (owners[tier].empty()) continue;
    TierSeries& series = tiers.emplace_back(TierSeries{plan.tiers[tier].name, {}});
    for (const auto& [owner, bytes] : owners[tier]) series.owners.push_back({owner, std::vector(points, bytes)});
  }
  return tiers;
}

PhaseSeries series_of(const Plan& plan, const PhasePlan& phase, std::size_t most) {
  const std::map<std::string, Levels> owners = levels_of(plan, phase.phase);
  const StepRange range = plan.timeline.of(phase.phase);
  Levels sum(static_cast<std::size_t>(range.end - range.begin), 0);
  for (const auto& [owner, levels] : owners) {
    std::ranges::transform(sum, levels, sum.begin(), std::plus());
  }
  const std::vector<std::size_t> points = points_of(owners, sum, most);
  PhaseSeries series{phase.name, {}, {{plan.tiers[0].name, {}}}};
  for (const std::size_t point : points) series.steps.push_back(range.begin + static_cast<int>(point));
  for (const auto& [owner, levels] : owners) {
    OwnerSeries& row = series.tiers[0].owners.emplace_back(OwnerSeries{owner, {}});
    for (const std::size_t point : points) row.bytes.push_back(Bytes{levels[point]});
  }
  for (TierSeries& tier : stored_series(plan, points.size())) series.tiers.push_back(std::move(tier));
  return series;
}

}  // namespace

std::vector<PhaseSeries> memory_series(const Plan& plan, std::size_t most) {
  ensure(!plan.timeline.steps.empty(), "memory series", "the plan has forgotten its analysis");
  std::vector<PhaseSeries> all;
  for (const PhasePlan& phase : plan.phases) all.push_back(series_of(plan, phase, most));
  return all;
}

}  // namespace plimsoll
