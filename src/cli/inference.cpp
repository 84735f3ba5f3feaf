#include "cli/inference.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ops/cpu_catalogue.h"
#include "plan/build_plan.h"

namespace plimsoll {

InferencePlan plan_inference(InferenceGraph graph, std::int64_t batch, const MachineRecord& machine,
                             const std::optional<Bytes>& budget) {
  CpuCatalogue catalogue({machine.machine.flops_per_second, machine.machine.bytes_per_second, machine.machine.step_seconds}, {});
  PlanRequest request;
  request.saves = false;
  InferencePlan result{std::move(graph), {}, batch, true};
  result.plan =
      build_plan(result.graph.model.graph, {}, PlanDecisions{batch, 1, 1, {}}, request, machine.machine, catalogue, nullptr);
  result.fits = !budget || result.plan.process <= *budget;
  return result;
}

void require_fit(const InferencePlan& plan, const std::optional<Bytes>& budget) {
  if (plan.fits) return;
  throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "plan",
              fmt::format("the smallest plan needs {}, the budget is {}", to_text(plan.plan.process), to_text(*budget)),
              "a larger budget", {fmt::format("--memory {}", plan.plan.process.n)});
}

}  // namespace plimsoll
