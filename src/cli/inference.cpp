#include "cli/inference.h"

#include <fmt/core.h>

#include "base/error.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "prepare/planning.h"

namespace plimsoll {

Bytes inference_budget(const MemorySettings& memory) {
  Budget budget{memory.budget, {}, {}};
  settle_budget(budget, available_memory(), /*runs_now=*/true, nullptr);
  return *budget.memory;
}

InferencePlan plan_inference(InferenceGraph graph, std::int64_t batch, const MachineRecord& machine, Bytes budget,
                             Bytes vocabulary) {
  OpCatalogue catalogue(machine.machine.rates, {});
  PlanRequest request;
  request.saves = false;
  InferencePlan result{std::move(graph), {}, batch, true};
  result.plan =
      build_plan(result.graph.model.graph, {}, PlanDecisions{.micro_batch = batch}, request, machine.machine, catalogue, nullptr);
  if (vocabulary.n > 0) {
    result.plan.reserve.push_back({"vocabulary", align_up(vocabulary, kPage), "counted"});
    result.plan.process += result.plan.reserve.back().bytes;
  }
  result.fits = result.plan.process <= budget;
  return result;
}

void require_fit(const InferencePlan& plan, Bytes budget) {
  if (plan.fits) return;
  throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "plan",
              fmt::format("the smallest plan needs {}, the budget is {}", to_text(plan.plan.process), to_text(budget)),
              "a larger budget", {fmt::format("--memory {}", plan.plan.process.n)});
}

}  // namespace plimsoll
