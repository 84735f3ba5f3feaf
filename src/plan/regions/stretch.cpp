#include "plan/regions/stretch.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace plimsoll::regions {
namespace {

using replays::at;
using replays::Op;
using replays::Problem;

constexpr int kNone = -1;

}  // namespace

ProblemFacts::ProblemFacts(const Problem& problem, const Regions& regions)
    : problem(problem), regions(regions), maker(problem.items.size(), kNone), readers(problem.items.size()) {
  for (int op = 0; op < static_cast<int>(problem.ops.size()); ++op) {
    for (const int item : problem.ops[at(op)].writes) maker[at(item)] = op;
    for (const int item : problem.ops[at(op)].reads) readers[at(item)].push_back(op);
  }
}

Stretch::Stretch(const ProblemFacts& facts, int begin, int end) : facts_(facts) {
  for (int region = begin; region < end; ++region) {
    const std::vector<int>& ops = facts.regions.ops[at(region)];
    ops_.insert(ops_.end(), ops.begin(), ops.end());
  }
  std::sort(ops_.begin(), ops_.end());
  const auto position_of = [&](int op) {  // of the op, or of the next one of the stretch
    return static_cast<int>(std::lower_bound(ops_.begin(), ops_.end(), op) - ops_.begin());
  };
  turn_ = position_of(facts.regions.turn);
  pages_ = facts.problem.narrow &&
           std::any_of(ops_.begin(), ops_.end(), [&](int op) { return !facts.problem.ops[at(op)].paged.empty(); });
  std::vector<int> items;  // of the problem
  for (const int op : ops_) {
    const Op& what = facts.problem.ops[at(op)];
    for (const auto* some : {&what.reads, &what.writes}) items.insert(items.end(), some->begin(), some->end());
  }
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  std::erase_if(items, [&](int item) { return facts.maker[at(item)] == kNone; });
  const auto local = [&](int item) {
    const auto found = std::lower_bound(items.begin(), items.end(), item);
    return found != items.end() && *found == item ? static_cast<int>(found - items.begin()) : kNone;
  };
  const auto inside = [&](int op) {
    const int region = facts.regions.of[at(op)];
    return begin <= region && region < end;
  };
  for (const int op : ops_) {
    const Op& what = facts.problem.ops[at(op)];
    reads_.emplace_back();
    writes_.emplace_back();
    overwrites_.emplace_back();
    for (const int item : what.reads) {
      if (const int number = local(item); number != kNone) reads_.back().push_back(number);
    }
    for (const int item : what.writes) writes_.back().push_back(local(item));
    for (const auto& [read, written] : what.overwrites) {
      const int from = local(read), to = local(written);
      if (from != kNone && to != kNone && facts.problem.items[at(read)] == facts.problem.items[at(written)])
        overwrites_.back().push_back({from, to});
    }
  }
  for (const int item : items) {
    const int made = facts.maker[at(item)];
    bytes_.push_back(facts.problem.items[at(item)]);
    away_.push_back(facts.problem.away.empty() ? 0 : facts.problem.away[at(item)]);
    maker_.push_back(inside(made) ? position_of(made) : kNone);
    comes_.push_back(position_of(made));
    int last = kNone;
    for (const int reader : facts.readers[at(item)]) {
      if (!inside(reader)) last = reader;
    }
    outside_last_.push_back(last);
    held_to_.push_back(last == kNone ? 0 : position_of(last));
  }
}

// What each pass through a unit needs of another tier comes while it uses what it needed before, and goes out while it uses what
// it needs next (plan/passes/fetching).
void Stretch::add_transfers(const std::vector<int>& position_at, int turn_place, std::vector<std::int64_t>& change) const {
  struct Use {
    int value, first, last;
    std::int64_t bytes;
    bool written;
  };
  std::map<std::pair<int, bool>, std::vector<Use>> passes;  // by unit and direction
  for (int place = 0; place < static_cast<int>(position_at.size()); ++place) {
    const Op& op = what(position_at[at(place)]);
    for (const replays::Paged& paged : op.paged) {
      std::vector<Use>& uses = passes[{op.unit, place >= turn_place}];
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
      const bool early = i > 0 && (!use.written || facts_.problem.adds);
      const int begin = early ? uses[i - 1].first : use.first;
      const int end = use.written && i + 1 < uses.size() ? std::max(use.last, uses[i + 1].last) : use.last;
      change[at(begin)] += use.bytes;
      change[at(end) + 1] -= use.bytes;
    }
  }
}

bool Stretch::may_run_again(int position) const {
  if (position >= turn_ || what(position).pass != replays::Pass::forward || !what(position).replayable) return false;
  return std::all_of(writes(position).begin(), writes(position).end(), [&](int item) { return own(item); });
}

bool Stretch::evaluate(std::span<const LocalReplay> replays, Outcome& outcome) const {
  struct Copy {
    int item, made, last;  // places in the sequence of runs
  };
  const int count = size();
  std::vector<int> first_place(at(count) + 1), position_at, current(bytes_.size(), kNone);
  std::vector<Copy> copies;
  std::vector<int> read_copies, read_begin{0};
  copies.reserve(bytes_.size() + replays.size());
  // What others make is there from the first run behind its maker.
  std::vector<int> coming(bytes_.size());
  std::size_t next_coming = 0;
  for (std::size_t i = 0; i < coming.size(); ++i) coming[i] = static_cast<int>(i);
  std::erase_if(coming, [&](int item) { return maker_[at(item)] != kNone; });
  std::sort(coming.begin(), coming.end(), [&](int a, int b) { return comes_[at(a)] < comes_[at(b)]; });
  outcome.seconds = 0;
  auto replay = replays.begin();
  bool good = true;
  const auto run = [&](int position, bool again) {
    const int place = static_cast<int>(position_at.size());
    position_at.push_back(position);
    for (const int item : reads_[at(position)]) {
      const int copy = current[at(item)];
      if (copy == kNone) {
        good = false;
        return;
      }
      if (again && away_[at(item)]) continue;
      copies[at(copy)].last = place;
      read_copies.push_back(copy);
    }
    read_begin.push_back(static_cast<int>(read_copies.size()));
    for (const int item : writes_[at(position)]) {
      current[at(item)] = static_cast<int>(copies.size());
      copies.push_back({item, place, place});
    }
  };
  for (int position = 0; position < count && good; ++position) {
    first_place[at(position)] = static_cast<int>(position_at.size());
    for (; next_coming < coming.size() && comes_[at(coming[next_coming])] <= position; ++next_coming) {
      const int item = coming[next_coming], place = static_cast<int>(position_at.size());
      current[at(item)] = static_cast<int>(copies.size());
      copies.push_back({item, place, place});
    }
    for (; replay != replays.end() && replay->before == position && good; ++replay) {
      outcome.seconds += what(replay->op).seconds;
      run(replay->op, true);
    }
    if (good) run(position, false);
  }
  if (!good || replay != replays.end()) return false;
  const int runs = static_cast<int>(position_at.size());
  first_place[at(count)] = runs;
  const int turn_place = first_place[at(turn_)];
  std::vector<std::int64_t> change(at(runs) + 1, 0);
  outcome.held = 0;
  for (const Copy& copy : copies) {
    const int held = held_to_[at(copy.item)];
    const int last = held > 0 ? std::max(copy.last, first_place[at(held)] - 1) : copy.last;
    if (last < copy.made) continue;
    change[at(copy.made)] += bytes_[at(copy.item)];
    change[at(last) + 1] -= bytes_[at(copy.item)];
    if (copy.made < turn_place && last >= turn_place) outcome.held += bytes_[at(copy.item)];
  }
  if (pages_) add_transfers(position_at, turn_place, change);
  const auto dies = [&](int place, int item) {
    for (int i = read_begin[at(place)]; i < read_begin[at(place) + 1]; ++i) {
      const Copy& copy = copies[at(read_copies[at(i)])];
      if (copy.item == item) return copy.last == place;
    }
    return false;
  };
  outcome.live.assign(at(count), 0);
  std::int64_t live = 0;
  std::vector<int> given;
  int position = 0;  // of the next op's own run
  for (int place = 0; place < runs; ++place) {
    while (place >= first_place[at(position) + 1]) ++position;
    live += change[at(place)];
    const int of = position_at[at(place)];
    std::int64_t taken = 0;
    given.clear();
    for (const int made : writes_[at(of)]) {
      for (const auto& [read, written] : overwrites_[at(of)]) {
        const bool free = written == made && outside_last_[at(read)] < op(position) && dies(place, read);
        if (!free || std::find(given.begin(), given.end(), read) != given.end()) continue;
        given.push_back(read);
        taken += bytes_[at(made)];
        break;
      }
    }
    outcome.live[at(position)] = std::max(outcome.live[at(position)], live + what(of).scratch - taken);
  }
  return true;
}

// All that the ways of a stretch depend on; items and values of other tiers by the order in which they appear.
std::string Stretch::signature() const {
  std::string text;
  const auto add = [&](auto value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  std::vector<int> names(bytes_.size(), kNone), values;
  int named = 0;
  const auto name = [&](int item) {
    int& own = names[at(item)];
    if (own == kNone) {
      own = named++;
      add(bytes_[at(item)]);
      add(maker_[at(item)]);
      add(comes_[at(item)]);
      add(held_to_[at(item)]);
      add(static_cast<char>(this->own(item) ? 1 : 0));
      add(away_[at(item)]);
    }
    add(own);
  };
  int first_unit = kNone;
  for (int position = 0; position < size() && first_unit == kNone; ++position) first_unit = what(position).unit;
  add(turn_);
  add(facts_.problem.narrow);
  add(facts_.problem.adds);
  for (int position = 0; position < size(); ++position) {
    const Op& op = what(position);
    const bool repeats = op.like >= 0 && op.like != this->op(position);
    add(op.seconds);
    add(op.scratch);
    add(static_cast<int>(op.pass) * 4 + (op.replayable ? 2 : 0) + (repeats ? 1 : 0) + (op.like >= 0 ? 64 : 0));
    add(facts_.regions.of[at(this->op(position))] - facts_.regions.of[at(this->op(0))]);
    add(op.unit == kNone ? std::numeric_limits<int>::min() : op.unit - first_unit);
    add(static_cast<int>(reads_[at(position)].size()));
    for (const int item : reads_[at(position)]) name(item);
    add(static_cast<int>(writes_[at(position)].size()));
    for (const int item : writes_[at(position)]) name(item);
    add(static_cast<int>(overwrites_[at(position)].size()));
    for (const auto& [read, written] : overwrites_[at(position)]) name(read), name(written);
    for (const replays::Paged& paged : op.paged) {
      const auto found = std::find(values.begin(), values.end(), paged.value);
      add(static_cast<int>(found - values.begin()));
      if (found == values.end()) values.push_back(paged.value);
      add(paged.bytes);
      add(paged.written);
    }
  }
  return text;
}

}  // namespace plimsoll::regions
