#include "profile/audited_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <variant>

#include "base/error.h"

namespace plimsoll {
namespace {

std::vector<const std::vector<Instruction>*> lists_of(const Program& program) {
  std::vector<const std::vector<Instruction>*> lists{&program.load};
  for (const std::vector<Instruction>* section : program.sections()) lists.push_back(section);
  lists.push_back(&program.save);
  return lists;
}

std::vector<StepRange> ranges_of(const Timeline& timeline) {
  std::vector<StepRange> ranges{timeline.load, timeline.micro, timeline.update};
  ranges.insert(ranges.end(), timeline.forward.begin(), timeline.forward.end());
  ranges.push_back(timeline.save);
  return ranges;
}

// The steps at which each instruction runs, both included: its own, or those of its neighbours for a copy.
std::vector<std::pair<int, int>> steps_of(const Plan& plan, const std::vector<Instruction>& instructions, StepRange range) {
  std::map<NodeId, int> step_of;
  for (int step = range.begin; step < range.end; ++step) {
    const Step& what = plan.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind == Step::Kind::node) step_of[what.node] = step;
  }
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
  const std::vector<const std::vector<Instruction>*> lists = lists_of(program);
  std::vector<AuditedInstruction> found;
  for (const PhaseAudit& phase : audited) {
    for (const auto& [instruction, live] : phase.live_at) {
      for (std::size_t list = 0; list < lists.size(); ++list) {
        const Instruction* first = lists[list]->data();
        if (std::less<>()(instruction, first) || !std::less<>()(instruction, first + lists[list]->size())) continue;
        found.push_back({phase.phase, list, static_cast<std::size_t>(instruction - first), live});
      }
    }
  }
  return found;
}

std::string excess_over_plan(const Plan& plan, const Program& program, const std::vector<AuditedInstruction>& audited) {
  const std::vector<const std::vector<Instruction>*> lists = lists_of(program);
  const std::vector<StepRange> ranges = ranges_of(plan.timeline);
  std::map<std::size_t, std::vector<std::pair<int, int>>> steps;
  std::map<Phase, LiveProfile> profiles;
  for (const AuditedInstruction& each : audited) {
    if (!steps.contains(each.list)) steps[each.list] = steps_of(plan, *lists.at(each.list), ranges.at(each.list));
    if (!profiles.contains(each.phase)) profiles[each.phase] = live_profile(plan.lifetimes, plan.timeline, each.phase);
    const std::vector<Bytes>& live = profiles[each.phase].bytes;
    const auto [low, high] = std::minmax(steps[each.list][each.instruction].first, steps[each.list][each.instruction].second);
    const auto [begin, end] = plan.timeline.of(each.phase);
    ensure(begin <= low && high < end, "audited steps", "an instruction ran outside of its phase");
    const Bytes planned = *std::max_element(live.begin() + (low - begin), live.begin() + (high - begin) + 1);
    if (each.live <= planned) continue;
    return fmt::format("{}: {} bytes are live at {}, {} were planned", name(plan.graph, each.phase), each.live.n,
                       describe((*lists[each.list])[each.instruction], plan.graph), planned.n);
  }
  return {};
}

}  // namespace plimsoll
