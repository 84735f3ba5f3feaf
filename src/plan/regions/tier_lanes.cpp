#include "plan/regions/tier_lanes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace plimsoll {

using replays::at;
using replays::kNone;

TierLanes::TierLanes(const Simulation& keep, const replays::GraphProblem& graph, const Residency& residency,
                     const Machine& machine)
    : problem_(&graph.problem),
      ops_(graph.problem.ops.size()),
      reads_(ops_.size()),
      needs_(ops_.size()),
      rounds_(keep.timeline.rounds) {
  const LaneModel model(keep, residency, machine);
  std::map<int, int> number_of;  // by value on another tier
  const auto number = [&](int value) {
    const auto [found, fresh] = number_of.emplace(value, static_cast<int>(moved_.size()));
    if (fresh) moved_.emplace_back();
    return found->second;
  };
  std::map<int, std::pair<int, bool>> needed;  // by number: the unit that needs it, and whether it writes it
  for (std::size_t op = 0; op < ops_.size(); ++op) {
    for (const replays::Paged& paged : graph.problem.ops[op].paged) {
      const int value = number(paged.value);
      needed[value] = {graph.problem.ops[op].unit, paged.written};
      needs_[op].push_back(value);
    }
  }
  const auto node_of = [&](std::size_t op) { return graph.nodes[op].valid() ? &keep.graph.nodes[graph.nodes[op]] : nullptr; };
  for (std::size_t op = 0; op < ops_.size() && graph.problem.adds && first_unit_ == kNone; ++op) {
    const Node* node = node_of(op);
    if (node == nullptr || !node->backward || node->op->transfer != Transfer::fetch) continue;
    const auto found = needed.find(number(static_cast<int>(origin_of(keep.graph, node->inputs[0]).index)));
    if (found != needed.end()) first_unit_ = found->second.first;
  }
  for (std::size_t op = 0; op < ops_.size(); ++op) {
    const int unit = graph.problem.ops[op].unit;
    std::ranges::copy_if(needs_[op], std::back_inserter(reads_[op]),
                         [&](int value) { return unit >= 0 && (unit == first_unit_ || !needed.at(value).second); });
  }
  for (int op = 0; op < static_cast<int>(ops_.size()); ++op) {
    OpEvents& own = ops_[at(op)];
    own.events = model.events_of(keep.timeline.micro.begin + op);
    if (node_of(at(op)) == nullptr) continue;
    const Node& node = *node_of(at(op));
    own.backward = node.backward;
    own.transfer = node.op->transfer;
    if (own.backward && !reads_[at(op)].empty()) needing_.push_back(op);
    if (own.transfer != Transfer::fetch && own.transfer != Transfer::fetched) continue;
    own.value = number(static_cast<int>(origin_of(keep.graph, node.inputs[0]).index));
    if (const auto found = needed.find(own.value); found != needed.end()) std::tie(own.unit, own.written) = found->second;
    Moved& moved = moved_[at(own.value)];
    moved.unit = own.unit;
    moved.transfers.push_back(op);
    if (own.transfer != Transfer::fetch || !own.backward) continue;
    moved.backward_fetch = op;
    if (own.unit >= 0) fetching_.push_back(op);
  }
  int units = 0;
  for (const Moved& moved : moved_) units = std::max(units, moved.unit + 1);
  begin_.assign(at(units) + 1, 0);
  for (const Moved& moved : moved_) {
    for (int unit = moved.unit + 1; moved.unit >= 0 && unit <= units; ++unit) ++begin_[at(unit)];
  }
}

// Orders the fetches of each unit's backward pass by the first need. Returns the first op that changes.
int TierLanes::order_fetches(const std::vector<replays::Replay>& replays, std::vector<int>& instead) const {
  std::vector<int> values(moved_.size()), count(begin_.size(), 0);
  std::vector<char> seen(moved_.size(), 0);
  const auto need = [&](int op) {
    for (const int value : reads_[at(op)]) {
      const int unit = moved_[at(value)].unit;
      if (seen[at(value)] != 0 || unit < 0) continue;
      seen[at(value)] = 1;
      values[at(begin_[at(unit)] + count[at(unit)]++)] = value;
    }
  };
  auto next = replays.begin();
  for (const int op : needing_) {
    for (; next != replays.end() && next->before <= op; ++next) need(next->op);
    need(op);
  }
  for (; next != replays.end(); ++next) need(next->op);
  std::vector<int> taken(begin_.size(), 0);
  int first = static_cast<int>(ops_.size());
  for (const int op : fetching_) {
    const OpEvents& what = ops_[at(op)];
    int& place = taken[at(what.unit)];
    const bool moves = seen[at(what.value)] != 0 && place < count[at(what.unit)];
    const int fetch = moves ? moved_[at(values[at(begin_[at(what.unit)] + place++)])].backward_fetch : kNone;
    const int now = fetch == kNone ? op : fetch;
    if (std::exchange(instead[at(op)], now) != now) first = std::min(first, op);
  }
  return first;
}

// Runs the transfers at this place and the op after them. Clones of that op come before fetches and after stores. Fetches for the
// op's own unit begin before all nodes of the unit, clones included.
void TierLanes::advance(Progress& now, const std::vector<replays::Replay>& replays, const std::vector<int>& fetches) const {
  const auto run = [&](int op) {
    if (now.done[at(op)]) return;
    now.done[at(op)] = 1;
    now.first.run(ops_[at(op)].events);
    if (rounds_ > 1) now.later.run(ops_[at(op)].events);
  };
  const auto run_once = [&](int op) { run(fetches[at(op)]); };
  const auto run_clone = [&](int op, int before) {
    for (const int value : needs_[at(op)]) {
      const std::vector<int>& transfers = moved_[at(value)].transfers;
      // The next fetch of it that is to come or under way, and its wait.
      auto wait = std::find_if(transfers.begin(), transfers.end(), [&](int each) {
        return ops_[at(each)].transfer == Transfer::fetched && ops_[at(each)].backward && (each >= before || !now.done[at(each)]);
      });
      if (wait == transfers.end() || now.done[at(*wait)]) continue;
      run(*std::prev(wait));
      run_once(*wait);
    }
    now.first.run_kernels(problem_->ops[at(op)].seconds);
    now.later.run_kernels(problem_->ops[at(op)].seconds);
  };
  int end = now.op;
  while (end + 1 < static_cast<int>(ops_.size()) && ops_[at(end)].transfer != Transfer::none) ++end;
  if (now.replays < replays.size() && replays[now.replays].before == end) {
    for (int each = now.op; each < end; ++each) {
      const OpEvents& what = ops_[at(each)];
      const bool leaves = what.transfer == Transfer::store || what.transfer == Transfer::stored;
      const bool early = !what.written || what.unit == first_unit_;
      const bool begins = what.transfer == Transfer::fetch && what.unit == problem_->ops[at(end)].unit && early;
      // Values that cross into a unit are in memory when the pass enters it.
      if (leaves || begins || what.unit < 0) run_once(each);
    }
    for (; now.replays < replays.size() && replays[now.replays].before == end; ++now.replays)
      run_clone(replays[now.replays].op, end);
  }
  for (; now.op <= end; ++now.op) run_once(now.op);
}

std::vector<double> TierLanes::stalls(const std::vector<std::vector<replays::Replay>>& plans) const {
  constexpr int kMostKept = 64;
  const int count = static_cast<int>(ops_.size()), apart = 1 + count / kMostKept;
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(
      order, {}, [&](std::size_t i) -> const auto& { return plans[i]; });
  std::vector<Progress> kept(1);  // progress of the plan before, at rising ops
  kept.front().done.assign(ops_.size(), 0);
  const std::vector<replays::Replay> none, *last = &none;
  std::vector<int> fetches(ops_.size());
  std::iota(fetches.begin(), fetches.end(), 0);
  Progress now;
  std::vector<double> stalls(plans.size());
  for (const std::size_t plan : order) {
    const std::vector<replays::Replay>& replays = plans[plan];
    int same = order_fetches(replays, fetches);  // the first op at which it differs from the last plan
    const auto [own, other] = std::ranges::mismatch(replays, *last);
    if (own != replays.end()) same = std::min(same, own->before);
    if (other != last->end()) same = std::min(same, other->before);
    while (kept.back().op > same) kept.pop_back();
    for (now = kept.back(); now.op < count;) {
      advance(now, replays, fetches);
      if (now.op == count || now.op >= kept.back().op + apart) kept.push_back(now);
    }
    stalls[plan] = micro_lanes(rounds_, now.first, now.later).stall;
    last = &replays;
  }
  return stalls;
}

}  // namespace plimsoll
