#include "plan/tiers/tier_lanes.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace plimsoll {
namespace {

using replays::at;

}  // namespace

TierLanes::TierLanes(const Simulation& keep, const replays::GraphProblem& graph, const Paging& paging, const Machine& machine)
    : problem_(&graph.problem), ops_(graph.problem.ops.size()), rounds_(keep.timeline.rounds) {
  const LaneModel model(keep, paging, machine);
  std::map<int, std::pair<int, bool>> needed;  // values on other tiers: by which unit, and whether it changes them
  for (const replays::Op& op : graph.problem.ops) {
    for (const replays::Paged& paged : op.paged) needed[paged.value] = {op.unit, paged.written};
  }
  for (int op = 0; op < static_cast<int>(ops_.size()); ++op) {
    OpEvents& own = ops_[at(op)];
    own.events = model.events_of(keep.timeline.micro.begin + op);
    const NodeId id = graph.nodes[at(op)];
    if (!id.valid()) continue;
    const Node& node = keep.graph.nodes[id];
    own.backward = node.backward;
    own.transfer = node.op->transfer;
    if (own.transfer != Transfer::fetch && own.transfer != Transfer::fetched) continue;
    own.value = static_cast<int>(origin_of(keep.graph, node.inputs[0]).index);
    if (const auto found = needed.find(own.value); found != needed.end()) std::tie(own.unit, own.written) = found->second;
    if (transfers_of_.size() <= at(own.value)) transfers_of_.resize(at(own.value) + 1);
    transfers_of_[at(own.value)].push_back(op);
  }
}

// What a unit needs in its backward pass is fetched in the order in which it is first needed. By fetch: the one in its place.
std::vector<int> TierLanes::fetches_by_first_use(const std::vector<replays::Replay>& replays) const {
  std::vector<int> instead(ops_.size(), -1);
  std::vector<std::vector<int>> needed;  // by unit: values
  const auto need = [&](const replays::Op& op) {
    for (const replays::Paged& paged : op.paged) {
      if (paged.written || op.unit < 0) continue;
      if (needed.size() <= at(op.unit)) needed.resize(at(op.unit) + 1);
      std::vector<int>& values = needed[at(op.unit)];
      if (std::find(values.begin(), values.end(), paged.value) == values.end()) values.push_back(paged.value);
    }
  };
  auto next = replays.begin();
  for (int op = 0; op < static_cast<int>(ops_.size()); ++op) {
    for (; next != replays.end() && next->before == op; ++next) need(problem_->ops[at(next->op)]);
    if (ops_[at(op)].backward) need(problem_->ops[at(op)]);
  }
  std::vector<std::size_t> taken(needed.size(), 0);
  for (int op = 0; op < static_cast<int>(ops_.size()); ++op) {
    const OpEvents& what = ops_[at(op)];
    if (what.transfer != Transfer::fetch || !what.backward || what.unit < 0 || at(what.unit) >= needed.size()) continue;
    const std::vector<int>& values = needed[at(what.unit)];
    if (std::find(values.begin(), values.end(), what.value) == values.end()) continue;
    std::size_t& place = taken[at(what.unit)];
    if (place >= values.size()) continue;
    for (const int fetch : transfers_of_[at(values[place])]) {
      if (ops_[at(fetch)].transfer == Transfer::fetch && ops_[at(fetch)].backward) instead[at(op)] = fetch;
    }
    ++place;
  }
  return instead;
}

// Clones of an op stand before the transfers that bring something right before it, and behind those that take something away
// right behind the op before. What the op's own unit needs begins before all that works for the unit.
void TierLanes::run(LaneClock& clock, const std::vector<replays::Replay>& replays) const {
  std::vector<char> done(ops_.size(), 0);
  std::vector<int> fetches = fetches_by_first_use(replays);
  auto next = replays.begin();
  const auto run_op = [&](int op) {
    if (fetches[at(op)] >= 0) op = fetches[at(op)];
    if (done[at(op)]) return;
    done[at(op)] = 1;
    clock.run(ops_[at(op)].events);
  };
  const auto run_clone = [&](int op, int before) {
    for (const replays::Paged& paged : problem_->ops[at(op)].paged) {
      if (at(paged.value) >= transfers_of_.size()) continue;
      const std::vector<int>& transfers = transfers_of_[at(paged.value)];
      // The next fetch of it that is behind or underway, and its wait.
      auto wait = std::find_if(transfers.begin(), transfers.end(), [&](int each) {
        return ops_[at(each)].transfer == Transfer::fetched && ops_[at(each)].backward && (each >= before || !done[at(each)]);
      });
      if (wait == transfers.end() || done[at(*wait)]) continue;
      if (const int fetch = *std::prev(wait); !done[at(fetch)]) {
        done[at(fetch)] = 1;
        clock.run(ops_[at(fetch)].events);
      }
      run_op(*wait);
    }
    LaneEvent kernels{.kind = LaneEvent::Kind::kernels, .kernels = problem_->ops[at(op)].seconds};
    clock.run(LaneEvents{kernels});
  };
  for (int op = 0; op < static_cast<int>(ops_.size());) {
    int end = op;  // the op behind the transfers that stand here
    while (end + 1 < static_cast<int>(ops_.size()) && ops_[at(end)].transfer != Transfer::none) ++end;
    if (next != replays.end() && next->before == end) {
      for (int each = op; each < end; ++each) {
        const OpEvents& what = ops_[at(each)];
        const bool leaves = what.transfer == Transfer::store || what.transfer == Transfer::stored;
        const bool comes = what.transfer == Transfer::fetch || what.transfer == Transfer::fetched;
        const bool begins = what.transfer == Transfer::fetch && what.unit == problem_->ops[at(end)].unit && !what.written;
        const bool activation = comes && what.unit < 0;  // what crosses into a unit is there when the pass enters it
        if (leaves || begins || activation) run_op(each);
      }
      for (; next != replays.end() && next->before == end; ++next) run_clone(next->op, end);
    }
    for (; op <= end; ++op) run_op(op);
  }
}

double TierLanes::stall(const std::vector<replays::Replay>& replays) const {
  return micro_lanes(rounds_, [&](LaneClock& clock) { run(clock, replays); }).stall;
}

std::vector<double> TierLanes::slack(std::size_t units) const {
  std::vector<double> slack(units, 0);
  LaneClock clock(/*first=*/rounds_ == 1);
  double before = 0;
  int unit = -1;
  for (int op = 0; op < static_cast<int>(ops_.size()); ++op) {
    const bool backward = problem_->ops[at(op)].pass == replays::Pass::backward;
    if (backward && problem_->ops[at(op)].unit >= 0) unit = problem_->ops[at(op)].unit;
    clock.run(ops_[at(op)].events);
    const int waits = ops_[at(op)].transfer == Transfer::none ? unit : ops_[at(op)].unit;  // for what this unit needs
    if (waits >= 0 && at(waits) + 1 < units && ops_[at(op)].backward) slack[at(waits) + 1] += clock.stall() - before;
    before = clock.stall();
  }
  return slack;
}

}  // namespace plimsoll
