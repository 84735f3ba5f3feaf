#include "plan/layout/conflict.h"

#include <algorithm>

#include "plan/layout/greedy.h"

namespace plimsoll::layout {
namespace {

// Buffers of a stretch that more are taken from than this are looked at in part: the largest ones.
constexpr std::size_t kMost = 400;

Problem pinned_of(const Problem& problem) {
  Problem pinned{.buffers = {}, .alignment = problem.alignment};
  for (const Buffer& buffer : problem.buffers) {
    if (buffer.pinned() && buffer.live()) pinned.buffers.push_back(buffer);
  }
  return pinned;
}

// What ends above the capacity, and all that lives beside any of it.
std::vector<std::size_t> beside_too_high(const Problem& problem, const Solution& solution, std::int64_t capacity) {
  const auto too_high = [&](std::size_t i) {
    return problem.buffers[i].live() && solution.offsets[i] + problem.buffers[i].size > capacity;
  };
  std::vector<std::size_t> high, some;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (too_high(i)) high.push_back(i);
  }
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    const auto beside = [&](std::size_t other) {
      return buffer.lower < problem.buffers[other].upper && problem.buffers[other].lower < buffer.upper;
    };
    if (buffer.live() && std::any_of(high.begin(), high.end(), beside)) some.push_back(i);
  }
  return some;
}

// Beside what is pinned.
bool fits(const Problem& problem, Problem part, const std::vector<std::size_t>& some, std::int64_t capacity) {
  for (const std::size_t i : some) part.buffers.push_back(problem.buffers[i]);
  return part.buffers.empty() || greedy(part, capacity).height <= capacity;
}

}  // namespace

std::vector<std::size_t> conflict(const Problem& problem, const Solution& solution, std::int64_t capacity) {
  std::vector<std::size_t> some = beside_too_high(problem, solution, capacity);
  std::erase_if(some, [&](std::size_t i) { return problem.buffers[i].pinned(); });
  // The largest first, so that the smallest are left out first.
  std::stable_sort(some.begin(), some.end(),
                   [&](std::size_t a, std::size_t b) { return problem.buffers[a].size > problem.buffers[b].size; });
  some.resize(std::min(some.size(), kMost));
  const Problem pinned = pinned_of(problem);
  if (some.empty() || fits(problem, pinned, some, capacity)) return {};
  for (std::size_t part = (some.size() + 1) / 2;; part = (part + 1) / 2) {
    for (std::size_t end = some.size(); end > 0;) {
      const std::size_t begin = end > part ? end - part : 0;
      std::vector<std::size_t> rest(some.begin(), some.begin() + static_cast<std::ptrdiff_t>(begin));
      rest.insert(rest.end(), some.begin() + static_cast<std::ptrdiff_t>(end), some.end());
      if (!fits(problem, pinned, rest, capacity)) some = std::move(rest);
      end = begin;
    }
    if (part == 1) break;
  }
  return some;
}

}  // namespace plimsoll::layout
