#include "plan/replays/problem.h"

#include <algorithm>
#include <utility>

namespace plimsoll::replays {
namespace {

constexpr int kNone = -1;

// One copy of an item: made by a run, read by later ones.
struct Copy {
  int item, made, last;  // positions in the sequence of runs
};

class Evaluation {
 public:
  Evaluation(const Problem& problem, std::span<const Replay> replays)
      : problem_(problem), current_(problem.items.size(), kNone), written_(problem.items.size(), 0) {
    for (const Op& op : problem.ops) {
      for (const int item : op.writes) written_[static_cast<std::size_t>(item)] = 1;
    }
    for (const Replay& replay : replays) by_place_.push_back(replay);
    std::stable_sort(by_place_.begin(), by_place_.end(), [](const Replay& a, const Replay& b) { return a.before < b.before; });
  }

  std::optional<Outcome> run(std::vector<std::int64_t>* trace) {
    auto next = by_place_.begin();
    for (int op = 0; op < static_cast<int>(problem_.ops.size()); ++op) {
      for (; next != by_place_.end() && next->before == op; ++next) {
        if (next->op < 0 || next->op >= op) return {};
        const Op& again = problem_.ops[static_cast<std::size_t>(next->op)];
        if (!again.replayable || op > again.until || !add(next->op, false)) return {};
      }
      if (!add(op, true)) return {};
    }
    if (next != by_place_.end()) return {};
    return outcome(trace);
  }

 private:
  bool add(int op, bool first) {
    const Op& what = problem_.ops[static_cast<std::size_t>(op)];
    const int position = static_cast<int>(sequence_.size());
    sequence_.push_back(op);
    first_.push_back(first);
    reads_.emplace_back();
    for (const int item : what.reads) {
      if (!written_[static_cast<std::size_t>(item)]) continue;
      const int copy = current_[static_cast<std::size_t>(item)];
      if (copy == kNone) return false;
      copies_[static_cast<std::size_t>(copy)].last = position;
      reads_.back().push_back(copy);
    }
    for (const int item : what.writes) {
      current_[static_cast<std::size_t>(item)] = static_cast<int>(copies_.size());
      copies_.push_back({item, position, position});
    }
    return true;
  }

  // Whether the copy that a run reads of an item has no later reader.
  bool dies(std::size_t position, int item) const {
    return std::any_of(reads_[position].begin(), reads_[position].end(), [&](int copy) {
      const Copy& read = copies_[static_cast<std::size_t>(copy)];
      return read.item == item && read.last == static_cast<int>(position);
    });
  }

  // The bytes that results take over from what dies where they are made.
  std::int64_t taken_over(std::size_t position) const {
    const Op& op = problem_.ops[static_cast<std::size_t>(sequence_[position])];
    const auto size = [&](int item) { return problem_.items[static_cast<std::size_t>(item)]; };
    std::vector<int> given;
    std::int64_t bytes = 0;
    for (const int made : op.writes) {
      const auto pair = std::find_if(op.overwrites.begin(), op.overwrites.end(), [&](const Overwrite& each) {
        return each.written == made && size(each.read) == size(made) && dies(position, each.read) &&
               std::find(given.begin(), given.end(), each.read) == given.end();
      });
      if (pair == op.overwrites.end()) continue;
      given.push_back(pair->read);
      bytes += size(made);
    }
    return bytes;
  }

  Outcome outcome(std::vector<std::int64_t>* trace) const {
    std::vector<std::int64_t> change(sequence_.size() + 1, 0);
    for (const Copy& copy : copies_) {
      change[static_cast<std::size_t>(copy.made)] += problem_.items[static_cast<std::size_t>(copy.item)];
      change[static_cast<std::size_t>(copy.last) + 1] -= problem_.items[static_cast<std::size_t>(copy.item)];
    }
    Outcome result;
    std::int64_t live = 0, most = 0;
    for (std::size_t i = 0; i < sequence_.size(); ++i) {
      const Op& op = problem_.ops[static_cast<std::size_t>(sequence_[i])];
      live += change[i];
      const std::int64_t now = live + op.scratch - taken_over(i);
      result.peak = std::max(result.peak, now);
      most = std::max(most, now);
      if (trace != nullptr && first_[i]) trace->push_back(std::exchange(most, 0));
      result.seconds += op.seconds;
    }
    return result;
  }

  const Problem& problem_;
  std::vector<int> current_;   // by item: its newest copy
  std::vector<char> written_;  // by item: whether an op makes it
  std::vector<Replay> by_place_;
  std::vector<int> sequence_;            // ops
  std::vector<char> first_;              // whether it is the op's own run and no replay
  std::vector<std::vector<int>> reads_;  // copies, by position
  std::vector<Copy> copies_;
};

}  // namespace

std::optional<Outcome> evaluate(const Problem& problem, std::span<const Replay> replays, std::vector<std::int64_t>* live) {
  if (live != nullptr) live->clear();
  return Evaluation(problem, replays).run(live);
}

std::int64_t largest_working_set(const Problem& problem) {
  std::vector<char> written(problem.items.size(), 0);
  std::int64_t most = 0;
  for (const Op& op : problem.ops) {
    std::int64_t bytes = op.scratch;
    for (const int item : op.reads)
      bytes += written[static_cast<std::size_t>(item)] ? problem.items[static_cast<std::size_t>(item)] : 0;
    for (const int item : op.writes) {
      written[static_cast<std::size_t>(item)] = 1;
      bytes += problem.items[static_cast<std::size_t>(item)];
    }
    for (const Overwrite& pair : op.overwrites) bytes -= problem.items[static_cast<std::size_t>(pair.read)];
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace plimsoll::replays
