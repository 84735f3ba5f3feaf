#include "cli/plan/instance_problem.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;

InstanceRole role_of(Role role) {
  switch (role) {
    case Role::parameter: return InstanceRole::parameter;
    case Role::accumulator: return InstanceRole::accumulator;
    case Role::optimizer_state:
    case Role::cache:
    case Role::statistic: return InstanceRole::state;
    case Role::staging:
    case Role::input: return InstanceRole::input;
    case Role::gradient: return InstanceRole::gradient;
    case Role::output: return InstanceRole::output;
    case Role::pages:
    case Role::activation:
    case Role::recomputed: return InstanceRole::activation;
  }
  return InstanceRole::activation;
}

class Extraction {
 public:
  explicit Extraction(const Simulation& simulation) : simulation_(simulation), graph_(simulation.graph) {
    problem_.value_of.resize(graph_.values.size(), -1);
    problem_.node_of.resize(graph_.nodes.size(), -1);
    current_.resize(graph_.values.size());
  }

  InstanceProblem run() {
    for (const Buffer& buffer : simulation_.lifetimes.buffers) {
      if (buffer.persistent) number(buffer.value);
    }
    const StepRange range = simulation_.timeline.of(Phase::steady);
    for (int step = range.begin; step < range.end; ++step) add_step(step);
    return std::move(problem_);
  }

 private:
  bool one_micro_step() const { return simulation_.timeline.rounds == 1; }

  int number(ValueId id) {
    int& number = problem_.value_of[id];
    if (number >= 0) return number;
    const Value& value = graph_.values[id];
    const BufferId buffer = simulation_.lifetimes.buffer_of[id];
    const bool run = value.persistent() && buffer.valid() && simulation_.lifetimes.buffers[buffer].persistent;
    const bool version = value.version_of.valid() && problem_.value_of[value.version_of] >= 0;
    number = static_cast<int>(problem_.values.size());
    problem_.values.push_back({version ? "" : value.name, value.bytes(), role_of(value.role),
                               run                  ? InstanceLasts::run
                               : value.persistent() ? InstanceLasts::window
                                                    : InstanceLasts::transient});
    problem_.roots.push_back(number);
    return number;
  }

  // The version of a persistent value that a reader sees: made by an earlier node of the same or an earlier section.
  ValueId found(ValueId value, Section reader) const {
    const ValueId version = current_[value];
    if (!version.valid() || !graph_.values[value].persistent()) return value;
    return graph_.values[version].section <= reader ? version : value;
  }

  int input(ValueId value, Section reader) {
    const ValueId read = found(value, reader);
    const NodeId producer = graph_.values[read].producer;
    if (producer.valid() && graph_.nodes[producer].op->view && problem_.node_of[producer] < 0) add_view(producer);
    return number(read);
  }

  // Views have no step, so they are numbered right before their first reader.
  void add_view(NodeId id) {
    const Node& node = graph_.nodes[id];
    const int viewed = input(node.inputs[0], node.section);
    const ordered_json kind = {{"op", node.op->name}, {"section", graph_.name(node.section)}, {"view", true}};
    InstanceNode& added = add_node(kind, node.line);
    problem_.node_of[id] = static_cast<int>(problem_.nodes.size()) - 1;
    added.inputs = {viewed};
    const int output = number(node.outputs[0]);
    added.outputs = {output};
    problem_.roots[static_cast<std::size_t>(output)] = problem_.roots[static_cast<std::size_t>(viewed)];
  }

  InstanceNode& add_node(const ordered_json& kind, std::string name) {
    const auto [known, added] = kinds_.try_emplace(kind.dump(), static_cast<int>(problem_.kinds.size()));
    if (added) problem_.kinds.push_back(known->first);
    problem_.nodes.push_back({known->second, std::move(name), {}, {}, -1, {}, {}, {}});
    return problem_.nodes.back();
  }

  void add_step(int step) {
    const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind == Step::Kind::node) {
      add_kernel(step, what.node);
    } else {
      add_special(what);
    }
  }

  void add_special(const Step& step) {
    const bool feeds = step.kind == Step::Kind::feed;
    const StepAccess access = access_of(graph_, step, false);
    InstanceNode node;
    node.reads = access.reads;
    node.writes = access.writes;
    if (feeds && step.section == Section::micro) {
      for (std::size_t i = 0; i < graph_.values.size(); ++i) {
        if (graph_.values[ValueId{i}].role == Role::staging) node.reads.push_back(ValueId{i});
      }
    }
    for (const ValueId value : node.reads) node.inputs.push_back(input(value, step.section));
    for (const ValueId value : node.writes) node.outputs.push_back(number(value));
    InstanceNode& added = add_node({{"op", feeds ? "feed" : "fetch"}, {"section", graph_.name(step.section)}}, "");
    node.kind = added.kind;
    added = std::move(node);
    problem_.special[{step.kind, step.section}] = static_cast<int>(problem_.nodes.size()) - 1;
  }

  void add_kernel(int step, NodeId id) {
    const Node& node = graph_.nodes[id];
    const std::vector<Alias> aliases = aliases_of(*node.op, node.attributes);
    const auto updates = [&](std::size_t input) {
      return std::any_of(aliases.begin(), aliases.end(),
                         [&](const Alias& alias) { return in_place(alias.kind) && alias.input == input; });
    };
    // With one micro-step per window, accumulators are written instead of added to, and their old content is not read.
    const bool writes = starts_round(graph_, node) || (one_micro_step() && starts_window(graph_, node));
    std::vector<std::size_t> positions;
    std::vector<int> inputs, outputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (writes && updates(i)) continue;
      positions.push_back(i);
      inputs.push_back(input(node.inputs[i], node.section));
    }
    ordered_json pairs = ordered_json::array();
    for (const Alias& alias : aliases) {
      const auto position = std::find(positions.begin(), positions.end(), alias.input);
      if (position == positions.end()) continue;
      pairs.push_back({position - positions.begin(), alias.output, in_place(alias.kind) ? "updates" : "may overwrite"});
    }
    for (const ValueId output : node.outputs) {
      outputs.push_back(number(output));
      if (graph_.values[output].version_of.valid()) current_[graph_.values[output].version_of] = output;
    }
    const bool recomputable =
        node.section == Section::micro && node.op->replayable &&
        std::none_of(aliases.begin(), aliases.end(), [](const Alias& alias) { return in_place(alias.kind); });
    const StepKernel& kernel = simulation_.kernels[static_cast<std::size_t>(step)];
    const KernelChoice& choice = kernel.of(one_micro_step());
    const double times = node.section == Section::micro ? static_cast<double>(simulation_.timeline.rounds) : 1;
    problem_.update_seconds += times * choice.seconds;
    ordered_json kind = {{"op", node.op->name},           {"section", graph_.name(node.section)},
                         {"backward", node.backward},     {"seconds", choice.seconds},
                         {"source", name(choice.source)}, {"scratch_bytes", kernel.scratch().n},
                         {"recomputable", recomputable},  {"in_place", std::move(pairs)}};
    InstanceNode& added = add_node(kind, node.line);
    problem_.node_of[id] = static_cast<int>(problem_.nodes.size()) - 1;
    added.inputs = std::move(inputs);
    added.outputs = std::move(outputs);
    added.positions = std::move(positions);
    if (node.backward && node.gradient_of.valid()) added.of = problem_.node_of[node.gradient_of];
  }

  const Simulation& simulation_;
  const Graph& graph_;
  PerValue<ValueId> current_;  // the last version of a persistent value
  std::map<std::string, int> kinds_;
  InstanceProblem problem_;
};

}  // namespace

InstanceProblem instance_problem(const Simulation& simulation) { return Extraction(simulation).run(); }

std::vector<ordered_json> value_rows(const InstanceProblem& problem) {
  std::vector<ordered_json> rows;
  for (const InstanceValue& value : problem.values) {
    rows.push_back({value.bytes.n, value.role, value.lasts, value.name});
  }
  return rows;
}

std::vector<ordered_json> kind_rows(const InstanceProblem& problem) {
  std::vector<ordered_json> rows;
  for (const std::string& kind : problem.kinds) rows.push_back(ordered_json::parse(kind));
  return rows;
}

std::vector<ordered_json> node_rows(const InstanceProblem& problem) {
  std::vector<ordered_json> rows;
  for (const InstanceNode& node : problem.nodes) {
    rows.push_back({node.kind, node.name, node.inputs, node.outputs});
    if (node.of >= 0) rows.back().push_back(node.of);
  }
  return rows;
}

}  // namespace plimsoll
