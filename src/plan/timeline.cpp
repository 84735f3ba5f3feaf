#include "plan/timeline.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {
namespace {

// The earliest place of each node of the update section, in nodes of the micro-step that run before it.
class EarliestPlaces {
 public:
  EarliestPlaces(const Graph& graph, const std::vector<NodeId>& micro)
      : graph_(graph), written_(graph.values.size(), 0), used_(graph.values.size(), 0) {
    for (std::size_t i = 0; i < micro.size(); ++i) {
      const Node& node = graph.nodes[micro[i]];
      for (const ValueId input : node.inputs) used_[root(input)] = i + 1;
      for (const ValueId output : node.outputs) {
        written_[root(output)] = i + 1;
        if (graph.values[root(output)].role == Role::accumulator) all_gradients_ = i + 1;
      }
    }
  }

  std::size_t all_gradients() const { return all_gradients_; }

  // Calls have to follow the order of the section.
  std::size_t place(const Node& node) {
    std::size_t after = 0;
    for (const ValueId input : node.inputs) after = std::max(after, written_[root(input)]);
    for (const NodeAlias& alias : aliases_of(graph_, node)) {
      if (in_place(alias.kind)) after = std::max(after, used_[root(alias.input)]);
    }
    // Ranks that have no part in an update wait for it as those that have.
    for (const ValueId input : node.inputs) {
      if (node.op->exchange != Exchange::none) after = std::max(after, used_[root(input)]);
    }
    // A node that waits for nothing runs after the micro-step, and so do its readers.
    for (const ValueId output : node.outputs) written_[root(output)] = after > 0 ? after : all_gradients_;
    for (const ValueId input : node.inputs) used_[root(input)] = std::max(used_[root(input)], after);
    return after;
  }

 private:
  ValueId root(ValueId value) const { return origin_of(graph_, value); }

  const Graph& graph_;
  PerValue<std::size_t> written_, used_;  // numbers of micro-step nodes
  std::size_t all_gradients_ = 0;         // number of micro-step nodes up to the last gradient
};

bool changes_state(const Graph& graph, const Node& node) {
  const std::vector<NodeAlias> aliases = aliases_of(graph, node);
  return std::any_of(aliases.begin(), aliases.end(), [](const NodeAlias& alias) { return in_place(alias.kind); });
}

bool is_fed(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.inputs, [&](ValueId input) { return graph.values[input].fed_in(node.section); });
}

class Builder {
 public:
  Builder(const Graph& graph, std::int64_t rounds) : graph_(graph) { timeline_.rounds = rounds; }

  Timeline run(bool saves) {
    fill(timeline_.load, [&] { add({Step::Kind::load, Section::micro, {}}); });
    timeline_.window = static_cast<int>(timeline_.steps.size());
    timeline_.forward.resize(graph_.forward.size());
    add_passes(/*within_window=*/true);
    std::vector<NodeId> updates = graph_.section_order(Section::update);
    fill(timeline_.micro, [&] { updates = add_micro(updates); });
    fill(timeline_.update, [&] { add_section(Section::update, updates); });
    add_passes(/*within_window=*/false);
    fill(timeline_.save, [&] {
      if (saves) add({Step::Kind::save, Section::update, {}});
    });
    return std::move(timeline_);
  }

 private:
  template <class Body>
  void fill(StepRange& range, Body&& body) {
    range.begin = static_cast<int>(timeline_.steps.size());
    body();
    range.end = static_cast<int>(timeline_.steps.size());
  }

  void add(Step step) { timeline_.steps.push_back(step); }
  void add_node(Section section, NodeId node) {
    if (!graph_.nodes[node].op->view) add({Step::Kind::node, section, node});
  }

  void add_passes(bool within_window) {
    for (std::size_t pass = 0; pass < timeline_.forward.size(); ++pass) {
      const Section section = forward_section(pass);
      if (reads_window(graph_, section) != within_window) continue;
      const bool runs = !within_window || timeline_.rounds > 1;
      fill(timeline_.forward[pass], [&] { add_section(section, runs ? graph_.section_order(section) : std::vector<NodeId>()); });
    }
  }

  void add_section(Section section, const std::vector<NodeId>& nodes) {
    if (nodes.empty()) return;
    if (section != Section::update || !update_fed_) add({Step::Kind::feed, section, {}});
    for (const NodeId node : nodes) add_node(section, node);
    add({Step::Kind::fetch, section, {}});
  }

  // Returns the update nodes that are left for the update's own range.
  std::vector<NodeId> add_micro(const std::vector<NodeId>& updates) {
    const std::vector<NodeId> micro = graph_.section_order(Section::micro);
    if (micro.empty()) return updates;
    std::vector<std::vector<NodeId>> early(micro.size());  // by the number of micro-step nodes before them
    std::vector<NodeId> left;
    EarliestPlaces places(graph_, micro);
    for (const NodeId id : updates) {
      const std::size_t after = places.place(graph_.nodes[id]);
      const bool can = timeline_.rounds == 1 && after > 0 && after < places.all_gradients();
      (can ? early[after] : left).push_back(id);
    }
    add({Step::Kind::feed, Section::micro, {}});
    for (std::size_t i = 0; i < micro.size(); ++i) {
      for (const NodeId id : early[i]) add_early(id);
      add_node(Section::micro, micro[i]);
    }
    return left;
  }

  void add_early(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (!update_fed_ && is_fed(graph_, node)) {
      add({Step::Kind::feed, Section::update, {}});
      update_fed_ = true;
    }
    timeline_.early_updates = timeline_.early_updates || changes_state(graph_, node);
    add_node(Section::update, id);
  }

  const Graph& graph_;
  Timeline timeline_;
  bool update_fed_ = false;
};

}  // namespace

Phase phase_of(Section section) {
  ensure(section >= Section::forward, "timeline", "no forward pass");
  return static_cast<Phase>(static_cast<std::size_t>(Phase::forward) + static_cast<std::size_t>(section) -
                            static_cast<std::size_t>(Section::forward));
}

Section section_of(Phase phase) {
  return forward_section(static_cast<std::size_t>(phase) - static_cast<std::size_t>(Phase::forward));
}

bool reads_window(const Graph& graph, Section section) {
  const auto sums = [&](ValueId input) {
    return graph.values[input].persistent() && graph.values[input].role == Role::accumulator;
  };
  return section >= Section::forward && std::ranges::any_of(graph.nodes, [&](const Node& node) {
           return node.section == section && std::ranges::any_of(node.inputs, sums);
         });
}

bool reads_window(const Graph& graph, Phase phase) {
  return phase >= Phase::forward && phase != Phase::save && reads_window(graph, section_of(phase));
}

std::string_view name(const Graph& graph, Phase phase) {
  switch (phase) {
    case Phase::load: return "load";
    case Phase::first: return "first";
    case Phase::steady: return "steady";
    case Phase::save: return "save";
    case Phase::forward: break;
  }
  return graph.name(section_of(phase));
}

std::vector<Phase> Timeline::phases() const {
  std::vector<Phase> all{Phase::load, Phase::first, Phase::steady};
  for (std::size_t pass = 0; pass < forward.size(); ++pass) all.push_back(phase_of(forward_section(pass)));
  all.push_back(Phase::save);
  return all;
}

StepRange Timeline::of(Phase phase) const {
  switch (phase) {
    case Phase::load: return load;
    case Phase::first: return {micro.begin, rounds == 1 ? update.end : micro.end};
    case Phase::steady: return {micro.begin, update.end};
    case Phase::save: return save;
    case Phase::forward: break;
  }
  return forward.at(static_cast<std::size_t>(phase) - static_cast<std::size_t>(Phase::forward));
}

StepRange Timeline::of(Section section) const {
  if (section == Section::micro) return micro;
  return section == Section::update ? update : of(phase_of(section));
}

std::map<NodeId, int> steps_of_nodes(const Timeline& timeline) {
  std::map<NodeId, int> steps;
  for (std::size_t i = 0; i < timeline.steps.size(); ++i) {
    const Step& step = timeline.steps[i];
    if (step.kind == Step::Kind::node) steps[step.node] = static_cast<int>(i);
  }
  return steps;
}

Forms forms_of(const Graph& graph, Section section, std::int64_t rounds) {
  if (section == Section::micro) return {true, rounds > 1};
  return {graph.sums(section), true};
}

Timeline make_timeline(const Graph& graph, std::int64_t rounds, bool saves) { return Builder(graph, rounds).run(saves); }

StepRange streams_with(const Graph& graph, const Timeline& timeline, int step) {
  const auto original = [&](int at) {
    if (at < 0 || at >= static_cast<int>(timeline.steps.size())) return NodeId{};
    const Step& what = timeline.steps[static_cast<std::size_t>(at)];
    if (what.kind != Step::Kind::node || !graph.nodes[what.node].pages.valid()) return NodeId{};
    const NodeId replica_of = graph.nodes[what.node].replica_of;
    return replica_of.valid() ? replica_of : what.node;
  };
  StepRange range{step, step + 1};
  const NodeId own = original(step);
  while (own.valid() && original(range.begin - 1) == own) --range.begin;
  while (own.valid() && original(range.end) == own) ++range.end;
  return range;
}

}  // namespace plimsoll
