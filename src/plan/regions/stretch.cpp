#include "plan/regions/stretch.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace plimsoll::regions {

using replays::at;
using replays::kNone;
using replays::Op;
using replays::Pass;

ProblemFacts::ProblemFacts(const replays::Problem& problem, const Regions& regions)
    : problem(problem), regions(regions), maker(problem.items.size(), kNone), readers(problem.items.size()) {
  for (int op = 0; op < static_cast<int>(problem.ops.size()); ++op) {
    for (const int item : problem.ops[at(op)].writes) maker[at(item)] = op;
    for (const int item : problem.ops[at(op)].reads) readers[at(item)].push_back(op);
  }
}

std::span<const int> Outline::ByPlace::at(int place) const {
  const int from = begin[replays::at(place)], to = begin[replays::at(place) + 1];
  return std::span(items).subspan(replays::at(from), replays::at(to - from));
}

Outline::ByPlace Outline::by_place(const std::vector<int>& place_of, std::size_t places) {
  ByPlace result{std::vector<int>(places + 1, 0), {}};
  for (const int place : place_of) {
    if (place != kNone) ++result.begin[at(place) + 1];
  }
  for (std::size_t place = 0; place < places; ++place) result.begin[place + 1] += result.begin[place];
  result.items.resize(at(result.begin.back()));
  std::vector<int> next(result.begin);
  for (int item = 0; item < std::ssize(place_of); ++item) {
    if (const int place = place_of[at(item)]; place != kNone) result.items[at(next[at(place)]++)] = item;
  }
  return result;
}

Outline::Outline(const ProblemFacts& facts, int begin, int end, std::vector<int>& local) : facts_(facts), local_(local) {
  std::vector<int> ops;  // indices in the whole problem
  for (int region = begin; region < end; ++region)
    ops.insert(ops.end(), facts.regions.ops[at(region)].begin(), facts.regions.ops[at(region)].end());
  std::sort(ops.begin(), ops.end());
  for (const int op : ops) {
    const Op& what = facts.problem.ops[at(op)];
    for (const auto* some : {&what.reads, &what.writes}) {
      for (const int item : *some) {
        if (facts.maker[at(item)] == kNone || local_[at(item)] != kNone) continue;
        local_[at(item)] = 0;
        items_.push_back(item);
      }
    }
    pages_ = pages_ || !what.paged.empty();
  }
  std::sort(items_.begin(), items_.end());
  // Items that other ops make or read, by the own op before which they do.
  const auto place = [&](int op) { return static_cast<int>(std::lower_bound(ops.begin(), ops.end(), op) - ops.begin()); };
  const auto others = [&](int op) {
    const int region = facts.regions.of[at(op)];
    return region < begin || region >= end;
  };
  std::vector<int> read_at(items_.size(), kNone), made_at(items_.size(), kNone);
  for (std::size_t item = 0; item < items_.size(); ++item) {
    const int whole = items_[item], maker = facts.maker[at(whole)];
    local_[at(whole)] = static_cast<int>(item);
    if (others(maker)) made_at[item] = place(maker);
    const std::vector<int>& readers = facts.readers[at(whole)];
    const auto last = std::find_if(readers.rbegin(), readers.rend(), others);
    if (last != readers.rend() && place(*last) > place(maker)) read_at[item] = place(*last);
    const bool away = !facts.problem.away.empty() && facts.problem.away[at(whole)] != 0;
    own_.push_back(!others(maker) && last == readers.rend() && !away ? 1 : 0);
  }
  read_ = by_place(read_at, ops.size() + 1);
  made_ = by_place(made_at, ops.size() + 1);
  const int turn = place(facts.regions.turn);
  for (int i = 0; i <= std::ssize(ops); ++i) {
    if (!read_.at(i).empty()) positions_.push_back({Kind::reading, kNone, i});
    if (i == turn) turn_ = size(), positions_.push_back({Kind::turn, kNone, i});
    if (!made_.at(i).empty()) positions_.push_back({Kind::making, kNone, i});
    if (i < std::ssize(ops)) positions_.push_back({Kind::own, ops[at(i)], i});
  }
}

Outline::~Outline() {
  for (const int item : items_) local_[at(item)] = kNone;
}

std::span<const int> Outline::others(const Position& position) const {
  return position.kind == Kind::reading ? read_.at(position.place) : made_.at(position.place);
}

bool Outline::replayable(int op) const {
  const Op& what = facts_.problem.ops[at(op)];
  return what.replayable && what.pass == Pass::forward && op < facts_.regions.turn;
}

// All facts that the ways of a stretch depend on. Items and values of other tiers are numbered in order of appearance.
std::string Outline::signature() const {
  constexpr int kEnd = -2;
  std::string text;
  const auto add = [&](auto value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  std::vector<int> names(items_.size(), kNone), values;
  int named = 0;
  const auto name = [&](int item) {
    int& own_name = names[at(item)];
    if (own_name == kNone) {
      own_name = named++;
      const std::size_t whole = at(items_[at(item)]);
      add(facts_.problem.items[whole]);
      add(own_[at(item)]);
      add(facts_.problem.away.empty() ? char{0} : facts_.problem.away[whole]);
    }
    add(own_name);
  };
  const auto name_all = [&](const std::vector<int>& items) {  // indices in the whole problem
    for (const int item : items) {
      if (local_[at(item)] != kNone) name(local_[at(item)]);
    }
    add(kEnd);
  };
  int first = kNone, first_unit = kNone;  // region and unit of its first op
  for (const Position& position : positions_) {
    if (position.op == kNone) continue;
    if (first == kNone) first = facts_.regions.of[at(position.op)];
    if (first_unit == kNone) first_unit = facts_.problem.ops[at(position.op)].unit;
  }
  add(turn_);
  add(facts_.problem.narrow && pages_);
  add(facts_.problem.adds);
  for (const Position& position : positions_) {
    add(position.kind);
    if (position.kind != Kind::own) {
      if (position.kind != Kind::turn) std::ranges::for_each(others(position), name);
      add(kEnd);
      continue;
    }
    const Op& op = facts_.problem.ops[at(position.op)];
    const bool repeats = op.like >= 0 && op.like != position.op;
    add(op.seconds);
    add(op.scratch);
    add(static_cast<int>(op.pass) * 4 + (replayable(position.op) ? 2 : 0) + (repeats ? 1 : 0) + (op.like >= 0 ? 64 : 0));
    add(facts_.regions.of[at(position.op)] - first);
    add(op.unit == kNone ? std::numeric_limits<int>::min() : op.unit - first_unit);
    name_all(op.reads);
    name_all(op.writes);
    for (const auto& [read, written] : op.overwrites) {
      if (local_[at(read)] == kNone || local_[at(written)] == kNone) continue;
      name(local_[at(read)]);
      name(local_[at(written)]);
    }
    add(kEnd);
    add(static_cast<int>(op.paged.size()));
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

Stretch::Stretch(const Outline& outline)
    : facts_(outline.facts_), turn_(outline.turn_), maker_(outline.items_.size(), kNone), own_(outline.own_) {
  problem_.narrow = facts_.problem.narrow && outline.pages_;
  problem_.adds = facts_.problem.adds;
  for (const int item : outline.items_) {
    problem_.items.push_back(facts_.problem.items[at(item)]);
    if (!facts_.problem.away.empty()) problem_.away.push_back(facts_.problem.away[at(item)]);
  }
  for (const Outline::Position& position : outline.positions_) {
    Op what;
    if (position.kind == Outline::Kind::own) {
      what = own_op(position.op, outline);
    } else if (position.kind != Outline::Kind::turn) {
      const std::span<const int> items = outline.others(position);
      (position.kind == Outline::Kind::reading ? what.reads : what.writes).assign(items.begin(), items.end());
    }
    ops_.push_back(position.op);
    problem_.ops.push_back(std::move(what));
  }
}

Op Stretch::own_op(int op, const Outline& outline) {
  Op what = facts_.problem.ops[at(op)];
  const auto local = [&](int item) { return outline.local_[at(item)]; };
  for (std::vector<int>* some : {&what.reads, &what.writes}) {
    std::ranges::transform(*some, some->begin(), local);
    std::erase(*some, kNone);
  }
  for (auto& [read, written] : what.overwrites) read = local(read), written = local(written);
  std::erase_if(what.overwrites, [](const replays::Overwrite& each) { return each.read == kNone || each.written == kNone; });
  for (const int item : what.writes) maker_[at(item)] = size();
  what.replayable = outline.replayable(op);
  what.until = std::numeric_limits<int>::max();
  return what;
}

int Stretch::region(int position) const { return op(position) == kNone ? kNone : facts_.regions.of[at(op(position))]; }

bool Stretch::may_run_again(int position) const {
  return what(position).replayable && std::ranges::all_of(what(position).writes, [&](int item) { return own(item); });
}

bool Stretch::evaluate(std::span<const replays::Replay> replays, Outcome& outcome) const {
  outcome.seconds = 0;
  for (const replays::Replay& replay : replays) outcome.seconds += what(replay.op).seconds;
  return replays::evaluate(problem_, replays, &outcome.live).has_value();
}

}  // namespace plimsoll::regions
