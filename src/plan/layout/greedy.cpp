#include "plan/layout/greedy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/ceil_div.h"
#include "base/tasks.h"
#include "plan/layout/model.h"

namespace plimsoll::layout {
namespace {

enum class Fit { first, best };
constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// Placed buffers by offset. One pass over them finds the gaps for a new buffer. They are kept in short runs: an insertion moves
// few buffers, and the pass skips runs whose lifetimes do not meet the new one's.
class Shelf {
 public:
  explicit Shelf(Fit fit) : fit_(fit), runs_(1) {}

  std::int64_t find(const Span& span, std::int64_t size) const {
    std::int64_t cursor = 0;
    std::int64_t best = -1;
    std::int64_t best_gap = std::numeric_limits<std::int64_t>::max();
    for (const Run& run : runs_) {
      if (run.all.last <= span.first || run.all.first >= span.last) continue;
      for (std::uint64_t beside = run.beside(span); beside != 0; beside &= beside - 1) {
        const auto i = static_cast<std::size_t>(std::countr_zero(beside));
        const std::int64_t gap = run.offset[i] - cursor;
        if (gap >= size) {
          if (fit_ == Fit::first) return cursor;
          if (gap < best_gap) {
            best_gap = gap;
            best = cursor;
          }
        }
        cursor = std::max(cursor, run.end[i]);
      }
    }
    return best >= 0 ? best : cursor;
  }

  // `end` is rounded up to the alignment.
  void add(const Span& span, std::int64_t offset, std::int64_t end) {
    auto run = std::partition_point(runs_.begin() + 1, runs_.end(), [&](const Run& r) { return r.offset[0] <= offset; }) - 1;
    if (run->count == kMost) {
      run = runs_.insert(run + 1, run->upper_half()) - 1;
      if (run[1].offset[0] <= offset) ++run;
    }
    run->add(span, offset, end);
  }

 private:
  static constexpr std::size_t kMost = 64;

  struct Run {
    std::size_t count = 0;
    Span all{std::numeric_limits<std::uint32_t>::max(), 0};
    std::array<std::uint32_t, kMost> first{}, last{};
    std::array<std::int64_t, kMost> offset{}, end{};

    // Bit i is set if buffer i lives at some moment of `span`.
    std::uint64_t beside(const Span& span) const {
      std::array<std::uint8_t, kMost> both;
      for (std::size_t i = 0; i < kMost; ++i) {
        both[i] = static_cast<std::uint8_t>((last[i] > span.first) & (first[i] < span.last));
      }
      std::uint64_t bits = 0;
      for (std::size_t i = 0; i < kMost; i += 8) {
        std::uint64_t bytes;
        std::memcpy(&bytes, both.data() + i, 8);
        bits |= (bytes * 0x0102040810204080) >> 56 << i;  // collects the lowest bit of each byte
      }
      return bits;
    }

    void add(const Span& span, std::int64_t at, std::int64_t until) {
      const std::size_t i =
          static_cast<std::size_t>(std::upper_bound(offset.begin(), offset.begin() + count, at) - offset.begin());
      const auto put = [&](auto& column, auto value) {
        std::copy_backward(column.begin() + i, column.begin() + count, column.begin() + count + 1);
        column[i] = value;
      };
      put(first, span.first);
      put(last, span.last);
      put(offset, at);
      put(end, until);
      ++count;
      all = {std::min(all.first, span.first), std::max(all.last, span.last)};
    }

    Run upper_half() {
      Run upper_run;
      for (std::size_t i = kMost / 2; i < kMost; ++i) upper_run.add({first[i], last[i]}, offset[i], end[i]);
      Run lower_run;
      for (std::size_t i = 0; i < kMost / 2; ++i) lower_run.add({first[i], last[i]}, offset[i], end[i]);
      *this = lower_run;
      return upper_run;
    }
  };

  Fit fit_;
  std::vector<Run> runs_;
};

template <class T>
void lower(std::atomic<T>& to, T value) {
  for (T known = to; value < known && !to.compare_exchange_weak(known, value);) {
  }
}

using Key = std::pair<double, double>;
constexpr std::size_t kSizeKey = 0, kLifeKey = 2, kStartKey = 3;

double life_of(const Buffer& buffer) { return static_cast<double>(buffer.upper) - static_cast<double>(buffer.lower); }
Key by_size(const Buffer& buffer) { return {static_cast<double>(buffer.size), life_of(buffer)}; }

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
  std::vector<std::vector<Key>> keys(6);  // by size, life and start at the named indices
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    const double size = static_cast<double>(buffer.size);
    const double lower = static_cast<double>(buffer.lower);
    const double upper = static_cast<double>(buffer.upper);
    const double life = life_of(buffer);
    keys[kSizeKey].push_back(by_size(buffer));
    keys[1].emplace_back(size * life, life);
    keys[kLifeKey].emplace_back(life, size);
    keys[kStartKey].emplace_back(-lower, life);
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

// Places buffers in the given order; returns nothing once a top reaches `ceiling`.
std::optional<Solution> place_in_order(const Problem& problem, const std::vector<Span>& spans,
                                       const std::vector<std::size_t>& order, Fit fit, std::int64_t ceiling) {
  Solution solution;
  solution.offsets.assign(problem.buffers.size(), 0);
  Shelf shelf(fit);
  const auto put = [&](std::size_t i, std::int64_t offset) {
    const Buffer& buffer = problem.buffers[i];
    solution.offsets[i] = offset;
    solution.height = std::max(solution.height, offset + buffer.size);
    if (buffer.live()) shelf.add(spans[i], offset, round_up(offset + buffer.size, problem.alignment));
  };
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].pinned()) put(i, problem.buffers[i].fixed_offset);
  }
  for (const std::size_t i : order) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.pinned()) continue;
    put(i, buffer.live() ? shelf.find(spans[i], buffer.size) : 0);
    if (solution.height >= ceiling) return std::nullopt;
  }
  return solution;
}

constexpr std::size_t kFewBuffers = 300;  // smaller problems run in one thread
constexpr int kRounds = 24;               // rounds of `by_promotion`

// First fit in rounds, until a layout is no higher than `enough`. Each round moves the buffers that ended above `bound` to the
// front of the order. The lowest layout of all rounds is returned.
Solution by_promotion(const Problem& problem, const std::vector<Span>& spans, std::vector<std::size_t> order, int rounds,
                      std::int64_t bound, std::int64_t enough) {
  Solution lowest;
  for (int round = 0; round < rounds; ++round) {
    Solution solution = *place_in_order(problem, spans, order, Fit::first, kUnbounded);
    std::ranges::stable_partition(order, [&](std::size_t i) {
      return !problem.buffers[i].pinned() && solution.offsets[i] + problem.buffers[i].size > bound;
    });
    if (round == 0 || solution.height < lowest.height) lowest = std::move(solution);
    if (lowest.height <= enough) break;
  }
  return lowest;
}

}  // namespace

Solution first_fit(const Problem& problem, int rounds, std::int64_t enough) {
  validate(problem);
  std::vector<Key> keys;
  for (const Buffer& buffer : problem.buffers) keys.push_back(by_size(buffer));
  const std::int64_t bound = lower_bound(problem);
  return by_promotion(problem, sections_of(problem).spans, order_by(keys), rounds, bound, std::max(enough, bound));
}

// Tries several orders in parallel. An order stops once it is worse than another; none starts after one that is low enough.
Solution greedy(const Problem& problem, std::int64_t enough) {
  validate(problem);
  const std::int64_t bound = lower_bound(problem);
  enough = std::max(enough, bound);
  constexpr std::array kFits{Fit::first, Fit::best};
  const std::vector<std::vector<Key>> keys = keys_of(problem);
  const std::vector<Span> spans = sections_of(problem).spans;
  std::vector<std::optional<Solution>> found(keys.size() * kFits.size());
  // The first order suffices in most cases, and promotion in most of the others.
  found[0] = place_in_order(problem, spans, order_by(keys[kSizeKey]), kFits[0], kUnbounded);
  if (found[0]->height <= enough) return *std::move(found[0]);
  Solution promoted;
  for (const std::size_t key : {kLifeKey, kStartKey}) {
    Solution solution = by_promotion(problem, spans, order_by(keys[key]), kRounds, bound, enough);
    if (solution.height <= enough) return solution;
    if (promoted.offsets.empty() || solution.height < promoted.height) promoted = std::move(solution);
  }
  std::atomic<std::int64_t> lowest{std::max(std::min(found[0]->height, promoted.height), enough)};
  std::atomic<std::size_t> last{found.size()};
  const auto place = [&](std::size_t i) {
    if (i > last) return;
    found[i] = place_in_order(problem, spans, order_by(keys[i / kFits.size()]), kFits[i % kFits.size()], lowest + 1);
    if (!found[i]) return;
    lower(lowest, std::max(found[i]->height, enough));  // no order is cut off below `enough`: the first such order counts
    if (found[i]->height <= enough) lower(last, i);
  };
  if (problem.buffers.size() < kFewBuffers) {
    for (std::size_t i = 1; i < found.size(); ++i) place(i);
  } else {
    run_tasks(found.size() - 1, [&](std::size_t i) { place(i + 1); });
  }
  // The first layout that is low enough, else the lowest; ties go to the first.
  Solution* best = &promoted;
  for (std::optional<Solution>& each : found) {
    if (!each || each->height >= best->height) continue;
    best = &*each;
    if (each->height <= enough) break;
  }
  return std::move(*best);
}

}  // namespace plimsoll::layout
