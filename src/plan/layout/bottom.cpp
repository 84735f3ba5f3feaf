#include "plan/layout/bottom.h"

#include <algorithm>
#include <limits>

namespace plimsoll::layout {

Bottom find_bottom(const Problem& problem) {
  validate(problem);
  std::int64_t lower = std::numeric_limits<std::int64_t>::max(), upper = std::numeric_limits<std::int64_t>::min();
  bool pinned = false;
  for (const Buffer& buffer : problem.buffers) {
    if (!buffer.live()) continue;
    lower = std::min(lower, buffer.lower);
    upper = std::max(upper, buffer.upper);
    pinned = pinned || buffer.pinned();
  }
  Bottom bottom;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    const bool always = buffer.live() && buffer.lower == lower && buffer.upper == upper;
    if (always && buffer.pinned() == pinned && buffer.size % problem.alignment == 0) bottom.buffers.push_back(i);
  }
  std::ranges::stable_sort(bottom.buffers, {}, [&](std::size_t i) { return problem.buffers[i].fixed_offset; });
  std::size_t taken = 0;
  for (; taken < bottom.buffers.size(); ++taken) {
    const Buffer& buffer = problem.buffers[bottom.buffers[taken]];
    if (pinned && buffer.fixed_offset != bottom.height) break;
    bottom.height += buffer.size;
  }
  bottom.buffers.resize(taken);
  return bottom;
}

Problem above(const Problem& problem, const Bottom& bottom) {
  Problem others = problem;
  for (const std::size_t i : bottom.buffers) others.buffers[i] = {};
  for (Buffer& buffer : others.buffers) {
    if (!buffer.live()) {  // it stays in place, and less of it lies above the bottom
      const std::int64_t top = std::max<std::int64_t>(buffer.fixed_offset, 0) + buffer.size;
      buffer = {.size = std::max<std::int64_t>(top - bottom.height, 0)};
    } else if (buffer.pinned()) {
      buffer.fixed_offset -= bottom.height;
    }
  }
  return others;
}

Solution with_bottom(const Problem& problem, const Bottom& bottom, const Solution& above) {
  Solution solution = above;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.pinned()) {
      solution.offsets[i] = buffer.fixed_offset;
    } else if (buffer.live()) {
      solution.offsets[i] += bottom.height;
    }
  }
  std::int64_t at = 0;
  for (const std::size_t i : bottom.buffers) {
    solution.offsets[i] = at;
    at += problem.buffers[i].size;
  }
  solution.height = height_of(problem, solution.offsets);
  return solution;
}

}  // namespace plimsoll::layout
