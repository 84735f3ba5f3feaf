#include "plan/layout/judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

namespace plimsoll::layout {
namespace {

void judge_one(const Problem& problem, const Solution& solution, std::size_t i, std::vector<std::string>& violations) {
  const Buffer& buffer = problem.buffers[i];
  const std::int64_t offset = solution.offsets[i];
  if (offset < 0) violations.push_back(fmt::format("buffer {} lies at the negative offset {}", i, offset));
  if (offset % problem.alignment != 0) {
    violations.push_back(fmt::format("buffer {} lies at {}, which is not a multiple of {}", i, offset, problem.alignment));
  }
  if (buffer.fixed_offset >= 0 && offset != buffer.fixed_offset) {
    violations.push_back(fmt::format("buffer {} is pinned to {} but lies at {}", i, buffer.fixed_offset, offset));
  }
}

// Sweeps over time. Live buffers are disjoint, so a new buffer is compared with its neighbours alone.
void judge_pairs(const Problem& problem, const Solution& solution, std::vector<std::string>& violations) {
  struct Event {
    std::int64_t time;
    bool begins;
    std::size_t buffer;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.lower >= buffer.upper || buffer.size <= 0) continue;
    events.push_back({buffer.lower, true, i});
    events.push_back({buffer.upper, false, i});
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return std::pair(a.time, a.begins) < std::pair(b.time, b.begins); });
  std::map<std::int64_t, std::size_t> living;  // live buffers by offset, without the later one of two that overlap
  for (const auto& [time, begins, i] : events) {
    const Buffer& a = problem.buffers[i];
    const std::int64_t at = solution.offsets[i];
    if (!begins) {
      const auto own = living.find(at);
      if (own != living.end() && own->second == i) living.erase(own);
      continue;
    }
    auto other = living.lower_bound(at);
    if (other != living.begin() && std::prev(other)->first + problem.buffers[std::prev(other)->second].size > at) --other;
    bool alone = true;
    for (; other != living.end() && other->first < at + a.size; ++other, alone = false) {
      const Buffer& b = problem.buffers[other->second];
      violations.push_back(fmt::format("buffers {} and {} overlap: lives [{}, {}) and [{}, {}), bytes [{}, {}) and [{}, {})",
                                       other->second, i, b.lower, b.upper, a.lower, a.upper, other->first, other->first + b.size,
                                       at, at + a.size));
    }
    if (alone) living.emplace(at, i);
  }
}

}  // namespace

std::vector<std::string> judge(const Problem& problem, const Solution& solution, std::int64_t capacity) {
  std::vector<std::string> violations;
  if (solution.offsets.size() != problem.buffers.size()) {
    violations.push_back(fmt::format("{} offsets for {} buffers", solution.offsets.size(), problem.buffers.size()));
    return violations;
  }
  std::int64_t highest = 0;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    judge_one(problem, solution, i, violations);
    const std::int64_t top = solution.offsets[i] + problem.buffers[i].size;
    if (top > highest) highest = top;
  }
  judge_pairs(problem, solution, violations);
  if (solution.height != highest)
    violations.push_back(fmt::format("the stated height is {}, the highest byte {}", solution.height, highest));
  if (capacity >= 0 && highest > capacity)
    violations.push_back(fmt::format("the highest byte {} is above the capacity {}", highest, capacity));
  return violations;
}

}  // namespace plimsoll::layout
