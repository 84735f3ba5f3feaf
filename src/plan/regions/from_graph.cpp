#include "plan/regions/from_graph.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "plan/tiers/rank_link.h"

namespace plimsoll::replays {
namespace {

class Conversion {
 public:
  Conversion(const Simulation& simulation, const std::vector<Unit>& units, bool narrow, std::int64_t least_loss_scratch,
             const RankLink& link)
      : simulation_(simulation),
        graph_(simulation.graph),
        unit_of_(graph_.nodes.size(), -1),
        least_loss_scratch_(least_loss_scratch),
        link_(link) {
    result_.problem.narrow = narrow;
    result_.problem.adds = simulation.timeline.rounds > 1;
    for (std::size_t i = 0; i < units.size(); ++i) {
      for (const NodeId id : units[i].nodes) unit_of_[id] = static_cast<int>(i);
    }
  }

  GraphProblem run() {
    const StepRange micro = simulation_.timeline.micro;
    for (int step = micro.begin; step < micro.end; ++step) add(step);
    name_others();
    if (!result_.problem.away.empty()) result_.problem.away.resize(result_.problem.items.size(), 0);
    // Values that an update at the end reads stay.
    for (const auto& [value, item] : item_of_) {
      if (graph_.values[value].persistent() && !simulation_.timeline.early_updates) use(result_.problem.ops.back(), item);
    }
    return std::move(result_);
  }

 private:
  // Links ops to those whose gradients they compute, or that they repeat for another micro-batch.
  void name_others() {
    PerNode<int> op_of(graph_.nodes.size(), -1);
    for (std::size_t i = 0; i < result_.nodes.size(); ++i) {
      if (result_.nodes[i].valid()) op_of[result_.nodes[i]] = static_cast<int>(i);
    }
    result_.follows.assign(result_.nodes.size(), 0);
    result_.likes = result_.nodes;
    for (std::size_t i = 0; i < result_.nodes.size(); ++i) {
      Op& op = result_.problem.ops[i];
      const NodeId node = result_.nodes[i];
      if (!node.valid()) continue;
      const Node& what = graph_.nodes[node];
      if (what.gradient_of.valid()) op.of = op_of[what.gradient_of];
      op.unit = unit_of_[what.gradient_of.valid() ? what.gradient_of : what.replica_of.valid() ? what.replica_of : node];
      if (!what.replica_of.valid()) continue;
      op.like = op_of[what.replica_of];
      result_.follows[i] = 1;
      result_.likes[i] = what.replica_of;
      result_.problem.ops[at(op.like)].like = op.like;
    }
  }

  void use(Op& op, int item) const {
    if (std::find(op.reads.begin(), op.reads.end(), item) == op.reads.end() &&
        std::find(op.writes.begin(), op.writes.end(), item) == op.writes.end()) {
      op.reads.push_back(item);
    }
  }

  // True for values that are made in the micro-step, for persistent ones only accumulators of one round.
  bool comes(ValueId origin) const {
    const Value& value = graph_.values[origin];
    if (value.tier != 0) return false;
    return !value.persistent() || (value.role == Role::accumulator && simulation_.timeline.rounds == 1);
  }

  void add(int step) {
    const Step& what = simulation_.timeline.steps[at(step)];
    find_access(graph_, what, simulation_.timeline.rounds == 1, access_);
    const StepKernel& kernel = simulation_.kernels[at(step)];
    Op op;
    for (const ValueId value : access_.reads) {
      const auto found = item_of_.find(origin_of(graph_, value));
      if (found != item_of_.end()) use(op, found->second);
    }
    for (const ValueId value : access_.writes) {
      const ValueId origin = origin_of(graph_, value);
      if (!comes(origin)) continue;
      const auto [found, fresh] = item_of_.emplace(origin, static_cast<int>(result_.problem.items.size()));
      if (fresh) {
        result_.problem.items.push_back(aligned_bytes(graph_.values[origin]).n);
        op.writes.push_back(found->second);
      } else {
        use(op, found->second);
      }
    }
    if (what.kind == Step::Kind::node && graph_.nodes[what.node].op->transfer == Transfer::store) {
      result_.problem.away.resize(result_.problem.items.size(), 0);
      for (const int item : op.reads) result_.problem.away[at(item)] = 1;
    }
    op.seconds = kernel.of(simulation_.timeline.rounds == 1).seconds;
    op.scratch = simulation_.lifetimes.scratch_bytes(step).n;
    if (what.kind == Step::Kind::node) {
      op.seconds += exchange_seconds(graph_, graph_.nodes[what.node], link_);
      describe(graph_.nodes[what.node], op);
    }
    result_.problem.ops.push_back(std::move(op));
    const bool runs = what.kind == Step::Kind::node && what.section == Section::micro;
    result_.nodes.push_back(runs ? what.node : NodeId{});
  }

  void describe(const Node& node, Op& op) const {
    if (node.section == Section::micro && node.op->transfer == Transfer::none)
      op.pass = node.backward ? Pass::backward : Pass::forward;
    op.replayable = may_run_again(graph_, node);
    for (const ValueId input : node.inputs) {
      if (node.op->transfer != Transfer::none || !graph_.values[input].copy_of.valid()) continue;
      const ValueId rests = origin_of(graph_, input);
      const Value& value = graph_.values[rests];
      op.paged.push_back({static_cast<int>(rests.index), aligned_bytes(value).n, value.role == Role::accumulator});
    }
    if (node.op->chunked && node.section == Section::micro) op.scratch = least_loss_scratch_;
    for (const NodeAlias& alias : aliases_of(graph_, node)) {
      const auto read = item_of_.find(origin_of(graph_, alias.input)), written = item_of_.find(origin_of(graph_, alias.output));
      if (alias.kind != AliasKind::may_overwrite || read == item_of_.end() || written == item_of_.end()) continue;
      if (graph_.values[alias.input].bytes() != graph_.values[alias.output].bytes()) continue;
      const bool seen_otherwise = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId other) {
        return other != alias.input && origin_of(graph_, other) == origin_of(graph_, alias.input);
      });
      if (seen_otherwise) continue;
      op.overwrites.push_back({read->second, written->second});
    }
  }

  const Simulation& simulation_;
  const Graph& graph_;
  PerNode<int> unit_of_;  // by forward node
  std::int64_t least_loss_scratch_;
  std::map<ValueId, int> item_of_;  // by origin
  StepAccess access_;               // of the current step
  RankLink link_;
  GraphProblem result_;
};

}  // namespace

GraphProblem problem_of(const Simulation& simulation, const std::vector<Unit>& units, bool narrow,
                        std::int64_t least_loss_scratch, const RankLink& link) {
  return Conversion(simulation, units, narrow, least_loss_scratch, link).run();
}

std::vector<NodeReplay> nodes_of(const GraphProblem& graph, const std::vector<Replay>& replays) {
  std::vector<NodeReplay> nodes;
  for (const auto& [op, before] : replays) {
    if (graph.follows[at(op)] != 0) continue;
    ensure(graph.nodes[at(before)].valid(), "replays", "a replay precedes no node");
    // A node that runs once for a group may come before the first of several micro-batches.
    nodes.push_back({graph.nodes[at(op)], graph.likes[at(before)]});
  }
  return nodes;
}

std::vector<std::vector<Replay>> schedules(const Problem& problem) {
  constexpr int kLevels = 16;
  constexpr std::size_t kOpsTried = 12000, kLeast = 10, kMost = 60;  // schedules at a level, by the number of ops
  std::vector<std::vector<Replay>> all;
  const std::optional<Outcome> keep = evaluate(problem, {});
  if (!keep) return all;
  const std::int64_t least = largest_working_set(problem);
  const auto work = static_cast<int>(std::clamp(kOpsTried / std::max<std::size_t>(problem.ops.size(), 1), kLeast, kMost));
  Search search(problem);
  for (int level = 1; level <= kLevels; ++level) {
    const std::int64_t bytes = keep->peak - (keep->peak - least) * level / kLevels;
    std::optional<Schedule> found = search.fastest(bytes, {work});
    if (!found) break;
    if (all.empty() || found->replays != all.back()) all.push_back(std::move(found->replays));
  }
  return all;
}

}  // namespace plimsoll::replays
