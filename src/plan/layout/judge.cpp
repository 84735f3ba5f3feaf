#include "plan/layout/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace plimsoll::layout {
namespace {

void judge_one(const Problem& problem, const Solution& solution, std::size_t i, std::vector<std::string>& violations) {
  const Buffer& buffer = problem.buffers[i];
  const std::int64_t offset = solution.offsets[i];
  if (offset < 0) violations.push_back(fmt::format("buffer {} lies at the negative offset {}", i, offset));
  if (offset % problem.alignment != 0) {
    violations.push_back(fmt::format("buffer {} lies at {}, which is no multiple of {}", i, offset, problem.alignment));
  }
  if (buffer.fixed_offset >= 0 && offset != buffer.fixed_offset) {
    violations.push_back(fmt::format("buffer {} is pinned to {} but lies at {}", i, buffer.fixed_offset, offset));
  }
}

bool intersect(std::int64_t a_begin, std::int64_t a_end, std::int64_t b_begin, std::int64_t b_end) {
  return a_begin < a_end && b_begin < b_end && a_begin < b_end && b_begin < a_end;
}

void judge_pair(const Problem& problem, const Solution& solution, std::size_t i, std::size_t j,
                std::vector<std::string>& violations) {
  const Buffer& a = problem.buffers[i];
  const Buffer& b = problem.buffers[j];
  const std::int64_t at = solution.offsets[i];
  const std::int64_t bt = solution.offsets[j];
  if (!intersect(a.lower, a.upper, b.lower, b.upper) || !intersect(at, at + a.size, bt, bt + b.size)) return;
  violations.push_back(fmt::format("buffers {} and {} overlap: lives [{}, {}) and [{}, {}), bytes [{}, {}) and [{}, {})", i, j,
                                   a.lower, a.upper, b.lower, b.upper, at, at + a.size, bt, bt + b.size));
}

// Every pair, but for those of which the later one begins after the other has ended.
void judge_pairs(const Problem& problem, const Solution& solution, std::vector<std::string>& violations) {
  std::vector<std::size_t> by_begin(problem.buffers.size());
  std::iota(by_begin.begin(), by_begin.end(), std::size_t{0});
  std::stable_sort(by_begin.begin(), by_begin.end(),
                   [&](std::size_t a, std::size_t b) { return problem.buffers[a].lower < problem.buffers[b].lower; });
  for (std::size_t i = 0; i < by_begin.size(); ++i) {
    for (std::size_t j = i + 1; j < by_begin.size(); ++j) {
      if (problem.buffers[by_begin[j]].lower >= problem.buffers[by_begin[i]].upper) break;
      judge_pair(problem, solution, by_begin[i], by_begin[j], violations);
    }
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
