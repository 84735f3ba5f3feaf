#include "profile/live_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "plan/passes/replay.h"

namespace plimsoll {
namespace {

class LiveSet {
 public:
  LiveSet(const Plan& plan, const Machine& machine) : plan_(plan), step_of_(steps_of_nodes(plan.timeline)) {
    if (machine.tiers.size() > 1) in_ = link_between(machine, 1, 0), out_ = link_between(machine, 0, 1);
  }

  LiveValue describe(const Buffer& buffer, Phase phase) const {
    LiveValue row{.owner = buffer.owner, .bytes = buffer.bytes, .born = buffer.begin_in(phase), .dies = buffer.end};
    if (!buffer.value.valid()) {
      row.line = line_of(buffer.begin);
      row.value = row.line + ".scratch";
      row.why = "scratch of " + what_runs(buffer.begin);
      return row;
    }
    const Value& value = plan_.graph.values[buffer.value];
    row.value = std::string(value.name);
    row.line = std::string(value.producer.valid() ? plan_.graph.nodes[value.producer].line : value.name);
    row.why = why(buffer, value);
    row.recompute = recompute_seconds(value);
    row.move = move_seconds(buffer.bytes);
    return row;
  }

 private:
  std::string line_of(int step) const {
    const Step& what = plan_.timeline.steps[static_cast<std::size_t>(step)];
    return what.kind == Step::Kind::node ? std::string(plan_.graph.nodes[what.node].line) : std::string();
  }

  std::string what_runs(int step) const {
    const Step& what = plan_.timeline.steps[static_cast<std::size_t>(step)];
    switch (what.kind) {
      case Step::Kind::load: return "the load";
      case Step::Kind::save: return "the save";
      case Step::Kind::feed: return "the feeding of inputs";
      case Step::Kind::fetch: return "the fetching of results";
      case Step::Kind::node: break;
    }
    const Node& node = plan_.graph.nodes[what.node];
    return fmt::format("{} ({}{})", std::string(node.line), node.op->name, node.backward ? ", backward" : "");
  }

  std::string why(const Buffer& buffer, const Value& value) const {
    if (buffer.persistent) return fmt::format("{}, held through the whole run", name(value.role));
    const std::string reader = what_runs(buffer.end - 1);
    if (value.role == Role::accumulator) return "sum of a window's gradients, for " + reader;
    if (value.copy_of.valid()) return "copy from another tier, for " + reader;
    if (value.clone_of.valid()) return "computed again, for " + reader;
    return "for " + reader;
  }

  std::optional<double> recompute_seconds(const Value& value) const {
    if (value.persistent() || !value.producer.valid()) return {};
    if (!may_run_again(plan_.graph, plan_.graph.nodes[value.producer])) return {};
    const auto step = step_of_.find(value.producer);
    if (step == step_of_.end()) return {};
    return plan_.kernels[static_cast<std::size_t>(step->second)].add.seconds;
  }

  std::optional<double> move_seconds(Bytes bytes) const {
    if (in_ == nullptr || out_ == nullptr || in_->bytes_per_second <= 0 || out_->bytes_per_second <= 0) return {};
    const auto count = static_cast<double>(bytes.n);
    return in_->latency_seconds + count / in_->bytes_per_second + out_->latency_seconds + count / out_->bytes_per_second;
  }

  const Plan& plan_;
  const Link *in_ = nullptr, *out_ = nullptr;
  std::map<NodeId, int> step_of_;
};

}  // namespace

LivePeak live_at_peak(const Plan& plan, const Machine& machine) {
  LivePeak peak;
  Phase phase = Phase::load;
  for (const PhasePlan& each : plan.phases) {
    if (!peak.phase.empty() && each.live <= peak.live) continue;
    peak.phase = each.name, peak.live = each.live, phase = each.phase;
  }
  peak.step = live_profile(plan.lifetimes, plan.timeline, phase).peak_step;
  const LiveSet set(plan, machine);
  for (const Buffer& buffer : plan.lifetimes.buffers) {
    if (lives(buffer, peak.step, phase)) peak.values.push_back(set.describe(buffer, phase));
  }
  std::ranges::stable_sort(peak.values, [](const LiveValue& a, const LiveValue& b) { return a.bytes > b.bytes; });
  return peak;
}

}  // namespace plimsoll
