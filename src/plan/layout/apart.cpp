#include "plan/layout/apart.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace plimsoll {
namespace {

// The step that waits for what a transfer brings, by the value that the transfer makes.
std::unordered_map<ValueId, int> waits_of(const Simulation& simulation) {
  std::unordered_map<ValueId, int> waits;
  for (int step = 0; step < static_cast<int>(simulation.timeline.steps.size()); ++step) {
    const Step& what = simulation.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind != Step::Kind::node) continue;
    const Node& node = simulation.graph.nodes[what.node];
    if (node.op->transfer == Transfer::fetched) waits.emplace(node.inputs[0], step);
  }
  return waits;
}

}  // namespace

std::optional<LateFetch> keep_apart(const Simulation& simulation, const std::vector<std::size_t>& conflict,
                                    const std::vector<LateFetch>& refused) {
  const std::unordered_map<ValueId, int> waits = waits_of(simulation);
  std::vector<std::pair<int, LateFetch>> pairs;  // by the steps that the transfer begins later
  for (const std::size_t brought : conflict) {
    const Buffer& a = simulation.lifetimes.buffers[BufferId{brought}];
    const auto wait = a.value.valid() ? waits.find(a.value) : waits.end();
    if (wait == waits.end()) continue;
    for (const std::size_t other : conflict) {
      const Buffer& b = simulation.lifetimes.buffers[BufferId{other}];
      if (b.begin > a.begin || b.end <= a.begin || b.end > wait->second) continue;
      const Step& last = simulation.timeline.steps[static_cast<std::size_t>(b.end - 1)];
      if (last.kind != Step::Kind::node) continue;
      pairs.push_back({b.end - a.begin, {simulation.graph.values[a.value].producer, last.node}});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [steps, late] : pairs) {
    const bool tried = std::find(refused.begin(), refused.end(), late) != refused.end();
    if (!tried && is_possible(simulation.graph, late)) return late;
  }
  return {};
}

}  // namespace plimsoll
