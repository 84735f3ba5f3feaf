#include "profile/audited_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "base/error.h"

namespace plimsoll {
namespace {

// The instructions of a section; without one, those of the load, the save, or the clearing of caches.
const std::vector<Instruction>& list_of(const Program& program, std::optional<Section> section, Phase phase) {
  if (section) return program.of(*section);
  return phase == Phase::load ? program.load : phase == Phase::save ? program.save : program.clear;
}

// The steps at which each instruction runs, both included: its own, or those of its neighbours for a copy.
std::vector<std::pair<int, int>> steps_of(const std::map<NodeId, int>& step_of, const std::vector<Instruction>& instructions,
                                          StepRange range) {
  std::vector<std::pair<int, int>> steps(instructions.size(), {range.begin, range.end - 1});
  const auto step_at = [&](std::size_t i, int otherwise) {
    const auto* run = std::get_if<RunKernel>(&instructions[i]);
    return run != nullptr ? step_of.at(run->node) : otherwise;
  };
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].first = step_at(i, i > 0 ? steps[i - 1].first : range.begin);
  for (std::size_t i = steps.size(); i-- > 0;) {
    steps[i].second = step_at(i, i + 1 < steps.size() ? steps[i + 1].second : range.end - 1);
  }
  return steps;
}

}  // namespace

std::vector<AuditedInstruction> audited_instructions(const Program& program, const std::vector<PhaseAudit>& audited) {
  std::vector<AuditedInstruction> found;
  for (const PhaseAudit& phase : audited) {
    for (const auto& [instruction, live] : phase.live_at) {
      const std::optional<Section> section = program.section_of(*instruction);
      const std::vector<Instruction>& list = list_of(program, section, phase.phase);
      const auto at = static_cast<std::size_t>(instruction - list.data());
      ensure(at < list.size(), "audited steps", "an instruction is not of its phase");
      found.push_back({phase.phase, section, at, live});
    }
  }
  return found;
}

std::string excess_over_plan(const Plan& plan, const Program& program, const std::vector<AuditedInstruction>& audited) {
  const std::map<NodeId, int> step_of = steps_of_nodes(plan.timeline);
  std::map<std::pair<Phase, std::optional<Section>>, std::vector<std::pair<int, int>>> steps;
  std::map<Phase, LiveProfile> profiles;
  for (const AuditedInstruction& each : audited) {
    const std::vector<Instruction>& list = list_of(program, each.section, each.phase);
    const auto [known, is_new] = steps.try_emplace({each.phase, each.section});
    if (is_new) {
      known->second = steps_of(step_of, list, each.section ? plan.timeline.of(*each.section) : plan.timeline.of(each.phase));
    }
    if (!profiles.contains(each.phase)) profiles[each.phase] = live_profile(plan.lifetimes, plan.timeline, each.phase);
    const std::vector<Bytes>& live = profiles[each.phase].bytes;
    const auto& [one, other] = known->second.at(each.instruction);
    const auto [low, high] = std::minmax(one, other);
    const auto [begin, end] = plan.timeline.of(each.phase);
    ensure(begin <= low && high < end, "audited steps", "an instruction ran outside of its phase");
    const Bytes planned = *std::max_element(live.begin() + (low - begin), live.begin() + (high - begin) + 1);
    if (each.live <= planned) continue;
    return fmt::format("{}: {} bytes are live at {}, {} were planned", name(plan.graph, each.phase), each.live.n,
                       describe(list[each.instruction], plan.graph), planned.n);
  }
  return {};
}

}  // namespace plimsoll
