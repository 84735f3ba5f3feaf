#include "plan/replays/problem.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plimsoll::replays {
namespace {

// One copy of an item: one run makes it, later runs read it.
struct Copy {
  int item, made, last;  // positions in the sequence of runs
};

class Evaluation {
 public:
  Evaluation(const Problem& problem, std::span<const Replay> replays)
      : problem_(problem),
        current_(problem.items.size(), kNone),
        written_(problem.items.size(), 0),
        by_place_(replays.begin(), replays.end()) {
    for (const Op& op : problem.ops) {
      for (const int item : op.writes) written_[at(item)] = 1;
    }
    std::stable_sort(by_place_.begin(), by_place_.end(), [](const Replay& a, const Replay& b) { return a.before < b.before; });
  }

  std::optional<Outcome> run(std::vector<std::int64_t>* trace) {
    auto next = by_place_.begin();
    for (int op = 0; op < static_cast<int>(problem_.ops.size()); ++op) {
      for (; next != by_place_.end() && next->before == op; ++next) {
        if (next->op < 0 || next->op >= op) return {};
        const Op& again = problem_.ops[at(next->op)];
        if (!again.replayable || op > again.until || !add(next->op, op)) return {};
      }
      if (!add(op, op)) return {};
    }
    if (next != by_place_.end()) return {};
    return outcome(trace);
  }

 private:
  struct Run {
    int op, before;       // the op runs right before `before`; equal for its own run
    std::size_t end = 0;  // end of its reads in the reads of all runs
  };

  bool add(int op, int before) {
    const Op& what = problem_.ops[at(op)];
    const int position = static_cast<int>(runs_.size());
    for (const int item : what.reads) {
      if (!written_[at(item)]) continue;
      const int copy = current_[at(item)];
      if (copy == kNone) return false;
      if (op != before && !problem_.away.empty() && problem_.away[at(item)]) continue;
      copies_[at(copy)].last = position;
      reads_.push_back(copy);
    }
    for (const int item : what.writes) {
      current_[at(item)] = static_cast<int>(copies_.size());
      copies_.push_back({item, position, position});
    }
    runs_.push_back({op, before, reads_.size()});
    return true;
  }

  // True if the copy that a run reads has no later reader.
  bool dies(int position, int item) const {
    for (std::size_t i = position == 0 ? 0 : runs_[at(position - 1)].end; i < runs_[at(position)].end; ++i) {
      const Copy& read = copies_[at(reads_[i])];
      if (read.item == item) return read.last == position;
    }
    return false;
  }

  // The bytes of dying items that results overwrite.
  std::int64_t taken_over(int position) {
    const Op& op = problem_.ops[at(runs_[at(position)].op)];
    if (op.overwrites.empty()) return 0;
    given_.clear();
    std::int64_t bytes = 0;
    for (const int made : op.writes) {
      const auto pair = std::find_if(op.overwrites.begin(), op.overwrites.end(), [&](const Overwrite& each) {
        return each.written == made && problem_.items[at(each.read)] == problem_.items[at(made)] && dies(position, each.read) &&
               std::find(given_.begin(), given_.end(), each.read) == given_.end();
      });
      if (pair == op.overwrites.end()) continue;
      given_.push_back(pair->read);
      bytes += problem_.items[at(made)];
    }
    return bytes;
  }

  // Each pass through a unit fetches the next value while it uses the current one, and stores the last one during the next use
  // (plan/passes/fetching).
  void add_transfers(std::vector<std::int64_t>& change) const {
    struct Use {
      int value, first, last;
      std::int64_t bytes;
      bool written;
    };
    std::map<std::pair<int, bool>, std::vector<Use>> passes;  // by unit and direction
    bool backward = false;
    for (int place = 0; place < static_cast<int>(runs_.size()); ++place) {
      const Op& op = problem_.ops[at(runs_[at(place)].op)];
      backward = backward || problem_.ops[at(runs_[at(place)].before)].pass == Pass::backward;
      for (const Paged& paged : op.paged) {
        std::vector<Use>& uses = passes[{op.unit, backward}];
        const auto begin = !paged.written && !uses.empty() ? uses.end() - 1 : uses.begin();
        const auto use = std::find_if(begin, uses.end(), [&](const Use& each) { return each.value == paged.value; });
        if (use == uses.end()) {
          uses.push_back({paged.value, place, place, paged.bytes, paged.written});
        } else {
          use->last = place;
        }
      }
    }
    for (const auto& [pass, uses] : passes) {
      for (std::size_t i = 0; i < uses.size(); ++i) {
        const Use& use = uses[i];
        const bool early = i > 0 && (!use.written || problem_.adds);
        change[at(early ? uses[i - 1].first : use.first)] += use.bytes;
        change[at(use.written && i + 1 < uses.size() ? std::max(use.last, uses[i + 1].last) : use.last) + 1] -= use.bytes;
      }
    }
  }

  Outcome outcome(std::vector<std::int64_t>* trace) {
    std::vector<std::int64_t> change(runs_.size() + 1, 0);
    for (const Copy& copy : copies_) {
      change[at(copy.made)] += problem_.items[at(copy.item)];
      change[at(copy.last) + 1] -= problem_.items[at(copy.item)];
    }
    if (problem_.narrow) add_transfers(change);
    Outcome result;
    std::int64_t live = 0, most = 0;
    for (int i = 0; i < static_cast<int>(runs_.size()); ++i) {
      const Op& op = problem_.ops[at(runs_[at(i)].op)];
      live += change[at(i)];
      most = std::max(most, live + op.scratch - taken_over(i));
      result.peak = std::max(result.peak, most);
      result.seconds += op.seconds;
      if (runs_[at(i)].op != runs_[at(i)].before) continue;
      if (trace != nullptr) trace->push_back(most);
      most = 0;
    }
    return result;
  }

  const Problem& problem_;
  std::vector<int> current_;   // by item: the newest copy
  std::vector<char> written_;  // by item: an op makes it
  std::vector<Replay> by_place_;
  std::vector<Run> runs_;
  std::vector<int> reads_;  // copies that all runs read
  std::vector<Copy> copies_;
  std::vector<int> given_;  // scratch for items that are overwritten
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
    for (const int item : op.reads) bytes += written[at(item)] ? problem.items[at(item)] : 0;
    for (const int item : op.writes) {
      written[at(item)] = 1;
      bytes += problem.items[at(item)];
    }
    for (const Overwrite& pair : op.overwrites) bytes -= problem.items[at(pair.read)];
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace plimsoll::replays
