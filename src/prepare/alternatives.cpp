#include "prepare/alternatives.h"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include "base/tasks.h"
#include "plan/search/candidates.h"
#include "prepare/rank_plans.h"
#include "prepare/requests.h"

namespace plimsoll {

Outcome outcome_of(const Plan& plan, const Config& config, const PlanningInput& input, const AskedPrompts& asked) {
  OpCatalogue catalogue = catalogue_of(input.machine);
  const PlannedAnswers answers = plan_answers(config, input, plan, catalogue, asked);
  return {answers.plan ? answers.plan->process : plan.process, plan.update_seconds, plan.decisions.micro_batch};
}

std::optional<Outcome> outcome_of(const ChangedConfig& changed, const PlanningInput& input, const Machine& machine,
                                  const std::vector<Budget>& budgets, const AskedPrompts& asked, double& work) {
  OpCatalogue catalogue = catalogue_of(input.machine);
  MachineRecord record = input.machine;
  record.machine = machine;
  record = machine_for_ranks(std::move(record), changed.facts.share.ranks);
  const int ranks = changed.facts.share.ranks;
  PlanningInput own{.request = changed.request, .machine = std::move(record), .facts = changed.facts};
  if (ranks == 1) {
    PlanSpace space(source_of(changed.config, changed.facts), changed.request, own.machine.machine, catalogue);
    work += space.effort().work;
    for (const Budget& budget : budgets) {
      own.budget = budget;
      if (const Plan* plan = space.fastest(budget)) return outcome_of(*plan, changed.config, own, asked);
    }
    return {};
  }
  std::optional<Outcome> best;
  for (const Budget& budget : budgets) {
    own.budget = budget;
    each_stage(changed.config, changed.facts, changed.request, [&](const DataFacts& facts, const PlanRequest& request) {
      own.facts = facts;
      own.request = request;
      PlanSpace space(source_of(changed.config, facts), request, own.machine.machine, catalogue);
      work += space.effort().work;
      const RankPlans plans = best_for_ranks(changed.config, own, space);
      const Plan* plan = std::get_if<Plan>(&plans.best);
      if (plan != nullptr && (!best || plan->update_seconds < (1 - kLeastGain) * best->seconds))
        best = outcome_of(*plan, changed.config, own, asked);
    });
    if (best) break;
  }
  return best;
}

std::vector<std::size_t> look_at_alternatives(std::size_t count, double work, double each,
                                              const std::function<double(std::size_t)>& body,
                                              const std::function<void(std::size_t)>& forget, bool* floors_alone) {
  constexpr std::size_t kTogether = 2;
  constexpr double kOfFailure = kMostAlternativeWork / 5;  // the work until memory ran out is unknown
  std::vector<std::size_t> left_out;
  double most = 0;
  for (std::size_t first = 0; first < count;) {
    const double expected = most > 0 ? std::min(most, each) : each;
    const bool little_memory = floors_alone != nullptr && *floors_alone;
    std::size_t together = little_memory ? 1 : std::min(kTogether, count - first);
    if (first == 0 && work + expected * kTogether > kMostAlternativeWork) together = 1;
    const bool enough = work > 0 && work + expected * static_cast<double>(together) > kMostAlternativeWork;
    std::vector<double> works(together);
    std::vector<char> failed(together);
    const auto look = [&](std::size_t i) {
      failed[i] = 0;
      try {
        works[i] += body(first + i);
      } catch (const std::bad_alloc&) {
        works[i] += std::max(expected, kOfFailure);
        failed[i] = 1;
      }
    };
    if (!enough) run_tasks(together, look);
    if (floors_alone != nullptr && std::ranges::any_of(failed, std::identity{}) && !std::exchange(*floors_alone, true)) {
      for (std::size_t i = 0; i < together; ++i) {
        if (failed[i] != 0) look(i);
      }
    }
    for (std::size_t i = 0; i < together; ++i, ++first) {
      if (enough || failed[i] != 0) {
        forget(first);
        left_out.push_back(first);
      }
      work += works[i];
      most = std::max(most, works[i]);
    }
  }
  return left_out;
}

}  // namespace plimsoll
