#include "plan/regions/stretch.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace plimsoll::regions {
namespace {

using replays::at;
using replays::kNone;
using replays::Op;
using replays::Pass;

int place_of(const std::vector<int>& items, int item) {
  const auto found = std::lower_bound(items.begin(), items.end(), item);
  return found != items.end() && *found == item ? static_cast<int>(found - items.begin()) : kNone;
}

}  // namespace

ProblemFacts::ProblemFacts(const replays::Problem& problem, const Regions& regions)
    : problem(problem), regions(regions), maker(problem.items.size(), kNone), readers(problem.items.size()) {
  for (int op = 0; op < static_cast<int>(problem.ops.size()); ++op) {
    for (const int item : problem.ops[at(op)].writes) maker[at(item)] = op;
    for (const int item : problem.ops[at(op)].reads) readers[at(item)].push_back(op);
  }
}

Stretch::Stretch(const ProblemFacts& facts, int begin, int end) : facts_(facts) {
  std::vector<int> ops, items;  // of the whole problem
  for (int region = begin; region < end; ++region)
    ops.insert(ops.end(), facts.regions.ops[at(region)].begin(), facts.regions.ops[at(region)].end());
  std::sort(ops.begin(), ops.end());
  bool pages = false;
  for (const int op : ops) {
    const Op& what = facts.problem.ops[at(op)];
    for (const auto* some : {&what.reads, &what.writes}) items.insert(items.end(), some->begin(), some->end());
    pages = pages || !what.paged.empty();
  }
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  std::erase_if(items, [&](int item) { return facts.maker[at(item)] == kNone; });
  problem_.narrow = facts.problem.narrow && pages;
  problem_.adds = facts.problem.adds;
  maker_.assign(items.size(), kNone);
  // What others make and read, by the place before which they do.
  const auto place = [&](int op) { return at(static_cast<int>(std::lower_bound(ops.begin(), ops.end(), op) - ops.begin())); };
  const auto others = [&](int op) {
    const int region = facts.regions.of[at(op)];
    return region < begin || region >= end;
  };
  std::vector<Op> reading(ops.size() + 1), making(ops.size() + 1);
  for (int item = 0; item < static_cast<int>(items.size()); ++item) {
    const int whole = items[at(item)], made = facts.maker[at(whole)];
    problem_.items.push_back(facts.problem.items[at(whole)]);
    if (!facts.problem.away.empty()) problem_.away.push_back(facts.problem.away[at(whole)]);
    if (others(made)) making[place(made)].writes.push_back(item);
    int last = kNone;
    for (const int reader : facts.readers[at(whole)]) last = others(reader) ? reader : last;
    if (last != kNone && place(last) > place(made)) reading[place(last)].reads.push_back(item);
    own_.push_back(!others(made) && last == kNone && !away(item) ? 1 : 0);
  }
  const std::size_t turn = place(facts.regions.turn);
  for (std::size_t i = 0; i <= ops.size(); ++i) {
    if (!reading[i].reads.empty()) add(kNone, std::move(reading[i]));
    if (i == turn) turn_ = size(), add(kNone, {});
    if (!making[i].writes.empty()) add(kNone, std::move(making[i]));
    if (i < ops.size()) add_own(ops[i], items);
  }
}

void Stretch::add(int op, Op what) {
  ops_.push_back(op);
  problem_.ops.push_back(std::move(what));
}

void Stretch::add_own(int op, const std::vector<int>& items) {
  Op what = facts_.problem.ops[at(op)];
  for (std::vector<int>* some : {&what.reads, &what.writes}) {
    for (int& item : *some) item = place_of(items, item);
    std::erase(*some, kNone);
  }
  for (auto& [read, written] : what.overwrites) read = place_of(items, read), written = place_of(items, written);
  std::erase_if(what.overwrites, [](const replays::Overwrite& each) { return each.read == kNone || each.written == kNone; });
  for (const int item : what.writes) maker_[at(item)] = size();
  what.replayable = what.replayable && what.pass == Pass::forward && op < facts_.regions.turn;
  what.until = std::numeric_limits<int>::max();
  add(op, std::move(what));
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

// All that the ways of a stretch depend on; items and values of other tiers by the order in which they appear.
std::string Stretch::signature() const {
  std::string text;
  const auto add = [&](auto value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  std::vector<int> names(problem_.items.size(), kNone), values;
  int named = 0;
  const auto name = [&](int item) {
    int& own_name = names[at(item)];
    if (own_name == kNone) {
      own_name = named++;
      add(problem_.items[at(item)]);
      add(own_[at(item)]);
      add(away(item));
    }
    add(own_name);
  };
  int first = kNone, first_unit = kNone;  // its first op, and unit
  for (int position = size(); position-- > 0;) {
    if (op(position) != kNone) first = position;
    if (what(position).unit != kNone) first_unit = what(position).unit;
  }
  add(turn_);
  add(problem_.narrow);
  add(problem_.adds);
  for (int position = 0; position < size(); ++position) {
    const Op& op = what(position);
    const bool repeats = op.like >= 0 && op.like != this->op(position);
    add(op.seconds);
    add(op.scratch);
    add(static_cast<int>(op.pass) * 4 + (op.replayable ? 2 : 0) + (repeats ? 1 : 0) + (op.like >= 0 ? 64 : 0));
    add(this->op(position) == kNone ? kNone : region(position) - region(first));
    add(op.unit == kNone ? std::numeric_limits<int>::min() : op.unit - first_unit);
    for (const auto* items : {&op.reads, &op.writes}) {
      add(static_cast<int>(items->size()));
      for (const int item : *items) name(item);
    }
    add(static_cast<int>(op.overwrites.size()));
    for (const auto& [read, written] : op.overwrites) name(read), name(written);
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

}  // namespace plimsoll::regions
