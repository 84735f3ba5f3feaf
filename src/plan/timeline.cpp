#include "plan/timeline.h"

namespace plimsoll {

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::load: return "load";
    case Phase::first: return "first";
    case Phase::steady: return "steady";
    case Phase::evaluate: return "evaluate";
    case Phase::save: return "save";
    case Phase::generate: return "generate";
  }
  return "?";
}

StepRange Timeline::of(Section section) const {
  switch (section) {
    case Section::micro: return micro;
    case Section::update: return update;
    case Section::evaluate: return evaluate;
    case Section::generate: return generate;
  }
  return {};
}

StepRange Timeline::of(Phase phase) const {
  switch (phase) {
    case Phase::load: return load;
    case Phase::first: return {micro.begin, accumulation == 1 ? update.end : micro.end};
    case Phase::steady: return {micro.begin, update.end};
    case Phase::evaluate: return evaluate;
    case Phase::save: return save;
    case Phase::generate: return generate;
  }
  return {};
}

Timeline make_timeline(const Graph& graph, std::int64_t accumulation, bool saves) {
  Timeline timeline;
  timeline.accumulation = accumulation;
  auto& steps = timeline.steps;
  const auto append = [&](StepRange& range, auto&& fill) {
    range.begin = static_cast<int>(steps.size());
    fill();
    range.end = static_cast<int>(steps.size());
  };
  const auto add_section = [&](Section section) {
    const std::vector<NodeId> nodes = graph.section_order(section);
    if (nodes.empty()) return;
    steps.push_back({Step::Kind::feed, section, {}});
    for (const NodeId node : nodes) {
      if (!graph.nodes[node].op->view) steps.push_back({Step::Kind::node, section, node});
    }
    if (section != Section::micro) steps.push_back({Step::Kind::fetch, section, {}});
  };
  append(timeline.load, [&] { steps.push_back({Step::Kind::load, Section::micro, {}}); });
  append(timeline.micro, [&] { add_section(Section::micro); });
  append(timeline.update, [&] { add_section(Section::update); });
  append(timeline.evaluate, [&] { add_section(Section::evaluate); });
  append(timeline.save, [&] {
    if (saves) steps.push_back({Step::Kind::save, Section::update, {}});
  });
  append(timeline.generate, [&] { add_section(Section::generate); });
  return timeline;
}

}  // namespace plimsoll
