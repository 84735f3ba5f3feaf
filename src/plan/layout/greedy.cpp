#include "plan/layout/greedy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/tasks.h"

namespace plimsoll::layout {
namespace {

enum class Fit { first, best };

struct Slot {
  std::int64_t offset, end;  // end is rounded up to the alignment
  std::int64_t lower, upper;
};

// Placed buffers by offset; one pass over them finds the gaps that a new buffer may use.
class Shelf {
 public:
  Shelf(Fit fit, std::size_t most) : fit_(fit) { slots_.reserve(most); }

  std::int64_t find(const Buffer& buffer) const {
    std::int64_t cursor = 0;
    std::int64_t best = -1;
    std::int64_t best_gap = std::numeric_limits<std::int64_t>::max();
    for (const Slot& slot : slots_) {
      if (slot.upper <= buffer.lower || slot.lower >= buffer.upper) continue;
      const std::int64_t gap = slot.offset - cursor;
      if (gap >= buffer.size) {
        if (fit_ == Fit::first) return cursor;
        if (gap < best_gap) {
          best_gap = gap;
          best = cursor;
        }
      }
      cursor = std::max(cursor, slot.end);
    }
    return best >= 0 ? best : cursor;
  }

  void add(const Slot& slot) {
    const auto at =
        std::upper_bound(slots_.begin(), slots_.end(), slot, [](const Slot& a, const Slot& b) { return a.offset < b.offset; });
    slots_.insert(at, slot);
  }

 private:
  Fit fit_;
  std::vector<Slot> slots_;
};

template <class T>
void lower(std::atomic<T>& to, T value) {
  for (T known = to; value < known && !to.compare_exchange_weak(known, value);) {
  }
}

using Key = std::pair<double, double>;

std::vector<double> contention(const Problem& problem) {
  std::vector<std::pair<std::int64_t, std::int64_t>> changes;
  for (const Buffer& buffer : problem.buffers) {
    if (!buffer.live()) continue;
    changes.emplace_back(buffer.lower, buffer.size);
    changes.emplace_back(buffer.upper, -buffer.size);
  }
  std::sort(changes.begin(), changes.end());
  // The load after each change, then the largest load of every power-of-two stretch of changes.
  std::vector<std::vector<std::int64_t>> most(1, std::vector<std::int64_t>(changes.size()));
  std::int64_t live = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) most[0][i] = live += changes[i].second;
  for (std::size_t width = 1; 2 * width <= changes.size(); width *= 2) {
    const std::vector<std::int64_t>& half = most.back();
    std::vector<std::int64_t> whole(changes.size() - 2 * width + 1);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + width]);
    most.push_back(std::move(whole));
  }
  const auto index_of = [&](std::int64_t time) {
    const auto at = std::lower_bound(changes.begin(), changes.end(), time,
                                     [](const auto& change, std::int64_t t) { return change.first < t; });
    return static_cast<std::size_t>(at - changes.begin());
  };
  std::vector<double> result(problem.buffers.size(), 0);
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!problem.buffers[i].live()) continue;
    const std::size_t begin = index_of(problem.buffers[i].lower);
    const std::size_t end = index_of(problem.buffers[i].upper);
    std::size_t level = 0;
    while (std::size_t{2} << level <= end - begin) ++level;
    result[i] = static_cast<double>(std::max(most[level][begin], most[level][end - (std::size_t{1} << level)]));
  }
  return result;
}

std::vector<std::vector<Key>> keys_of(const Problem& problem) {
  const std::vector<double> contended = contention(problem);
  std::vector<std::vector<Key>> keys(6);
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    const double size = static_cast<double>(buffer.size);
    const double lower = static_cast<double>(buffer.lower);
    const double upper = static_cast<double>(buffer.upper);
    const double life = upper - lower;
    keys[0].emplace_back(size, life);
    keys[1].emplace_back(size * life, life);
    keys[2].emplace_back(life, size);
    keys[3].emplace_back(-lower, life);
    keys[4].emplace_back(upper, life);
    keys[5].emplace_back(contended[i], size * life);
  }
  return keys;
}

std::vector<std::size_t> order_by(const std::vector<Key>& keys) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] > keys[b]; });
  return order;
}

// Places buffers in the given order; nothing when a top reaches `ceiling`.
std::optional<Solution> place_in_order(const Problem& problem, const std::vector<std::size_t>& order, Fit fit,
                                       std::int64_t ceiling) {
  Solution solution;
  solution.offsets.assign(problem.buffers.size(), 0);
  Shelf shelf(fit, problem.buffers.size());
  const auto put = [&](std::size_t i, std::int64_t offset) {
    const Buffer& buffer = problem.buffers[i];
    solution.offsets[i] = offset;
    solution.height = std::max(solution.height, offset + buffer.size);
    if (buffer.live()) shelf.add({offset, round_up(offset + buffer.size, problem.alignment), buffer.lower, buffer.upper});
  };
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].pinned()) put(i, problem.buffers[i].fixed_offset);
  }
  for (const std::size_t i : order) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.pinned()) continue;
    put(i, buffer.live() ? shelf.find(buffer) : 0);
    if (solution.height >= ceiling) return std::nullopt;
  }
  return solution;
}

// Passes over a problem of n buffers take about n^2 steps each; so many in all.
constexpr double kConflictWork = 1e8;

// The first of those that reach the bound, or the lowest; of equal ones the first.
std::size_t best_of(const std::vector<std::optional<Solution>>& found, std::int64_t bound) {
  std::size_t best = found.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!found[i] || (best < found.size() && found[i]->height >= found[best]->height)) continue;
    best = i;
    if (found[i]->height <= bound) break;
  }
  return best;
}

// Orders side by side, where that is worth threads: what is worse than another one stops, and what comes after one that reaches
// the bound does not begin.
constexpr std::size_t kFewBuffers = 300;

Solution place_by_keys(const Problem& problem, const std::vector<std::vector<Key>>& keys, std::int64_t bound) {
  constexpr std::array kFits{Fit::first, Fit::best};
  std::vector<std::optional<Solution>> found(keys.size() * kFits.size());
  std::atomic<std::int64_t> lowest{std::numeric_limits<std::int64_t>::max() - 1};
  std::atomic<std::size_t> last{found.size()};
  const auto place = [&](std::size_t i) {
    if (i > last) return;
    found[i] = place_in_order(problem, order_by(keys[i / kFits.size()]), kFits[i % kFits.size()], lowest + 1);
    if (!found[i]) return;
    lower(lowest, std::max(found[i]->height, bound));  // what reaches the bound is not cut off: the first one of those counts
    if (found[i]->height <= bound) lower(last, i);
  };
  if (problem.buffers.size() < kFewBuffers) {
    for (std::size_t i = 0; i < found.size(); ++i) place(i);
  } else {
    run_tasks(found.size(), place);
  }
  return *std::move(found[best_of(found, bound)]);
}

// What ends beyond the bound stood behind what it conflicts with: it goes to the front of its order, and all are placed again. At
// first those in the upper half of what is too much, the farther the best height comes down the more.
std::optional<Solution> place_conflicts_first(const Problem& problem, std::vector<std::size_t> order, std::int64_t bound,
                                              std::size_t passes) {
  std::optional<Solution> best;
  for (std::size_t pass = 0; pass < passes && (!best || best->height > bound); ++pass) {
    Solution found = *place_in_order(problem, order, Fit::first, std::numeric_limits<std::int64_t>::max());
    const std::int64_t lowest = best ? std::min(best->height, found.height) : found.height;
    const std::int64_t limit = bound + (lowest - bound) / 2;
    const auto too_high = [&](std::size_t i) {
      return problem.buffers[i].live() && found.offsets[i] + problem.buffers[i].size > limit;
    };
    const bool stays = std::is_partitioned(order.begin(), order.end(), too_high);
    std::stable_partition(order.begin(), order.end(), too_high);
    if (!best || found.height < best->height) best = std::move(found);
    if (stays) break;
  }
  return best;
}

Solution place_all(const Problem& problem, std::int64_t bound) {
  const std::vector<std::vector<Key>> keys = keys_of(problem);
  Solution best = place_by_keys(problem, keys, bound);
  if (best.height <= bound) return best;
  constexpr std::array<std::size_t, 3> kOrders{0, 1, 2};  // by size, area, life
  const auto count = static_cast<double>(std::max<std::size_t>(problem.buffers.size(), 1));
  const auto passes = static_cast<std::size_t>(std::min(1e4, kConflictWork / (count * count)) / kOrders.size());
  std::vector<std::optional<Solution>> found{std::move(best)};
  found.resize(1 + kOrders.size());
  run_tasks(kOrders.size(),
            [&](std::size_t i) { found[1 + i] = place_conflicts_first(problem, order_by(keys[kOrders[i]]), bound, passes); });
  return *std::move(found[best_of(found, std::numeric_limits<std::int64_t>::min())]);
}

// These first, by themselves, which takes few buffers many passes; then the others around them. Empty where they are most of all,
// or nothing is lower for it.
std::optional<Solution> place_around(const Problem& problem, std::vector<std::size_t> first, std::int64_t bound,
                                     std::int64_t height) {
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.live() && buffer.pinned()) first.push_back(i);
  }
  std::sort(first.begin(), first.end());
  first.erase(std::unique(first.begin(), first.end()), first.end());
  if (5 * first.size() > 4 * problem.buffers.size()) return {};
  Problem part{.buffers = {}, .alignment = problem.alignment}, around = problem;
  for (const std::size_t i : first) part.buffers.push_back(problem.buffers[i]);
  const Solution placed = place_all(part, bound);
  if (placed.height >= height) return {};
  for (std::size_t i = 0; i < first.size(); ++i) around.buffers[first[i]].fixed_offset = placed.offsets[i];
  Solution all = place_by_keys(around, keys_of(around), bound);
  if (all.height >= height) return {};
  return all;
}

// What lives beside what ends too high, first; of what is too much the upper half, or all. Worth a look for so much, and again as
// long as it lowers the layout.
constexpr double kWorthAnotherLook = 1.003;
constexpr int kMostLooks = 4;

Solution place_peak_first(const Problem& problem, Solution best, std::int64_t bound) {
  const auto enough = static_cast<std::int64_t>(kWorthAnotherLook * static_cast<double>(bound));
  bool lowered = true;
  for (int look = 0; look < kMostLooks && lowered && best.height > enough; ++look) {
    lowered = false;
    for (const std::int64_t limit : {bound + (best.height - bound) / 2, bound}) {
      std::optional<Solution> next = place_around(problem, beside_too_high(problem, best, limit), bound, best.height);
      if (!next) continue;
      best = *std::move(next);
      lowered = true;
      break;
    }
  }
  return best;
}

}  // namespace

Solution greedy(const Problem& problem, double enough) {
  validate(problem);
  const auto bound = static_cast<std::int64_t>(enough * static_cast<double>(lower_bound(problem)));
  return place_peak_first(problem, place_all(problem, bound), bound);
}

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

Solution place_quickly(const Problem& problem, std::int64_t enough) { return place_by_keys(problem, keys_of(problem), enough); }

}  // namespace plimsoll::layout
