#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/plan/frontier_curve.h"
#include "cli/plan/frontier_svg.h"
#include "cli/plan/plan_diff.h"
#include "cli/plan/plan_export.h"
#include "cli/plan/plan_frontier.h"
#include "cli/plan/plan_text.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "formats/atomic_file.h"
#include "measure/simulated_machine.h"
#include "prepare/planning.h"
#include "prepare/solve.h"
#include "session/probe.h"

namespace plimsoll {

namespace {

constexpr int kFrontierPoints = 16;

constexpr const char* kSimulated = "sim";

// What is planned, and for which machine: this computer, a described one, or, once the threads are known, the simulated one.
struct Target {
  ConfigSource source;
  Config config;
  PlanningPlace place;
};

Target target_of(const PlanArguments& arguments) {
  PlanningPlace place{.machine = {}, .probe = probe_shape, .runs_now = false};
  ConfigSource source{.settings = read_settings_of(with_length(arguments.config))};
  const bool simulated = arguments.machine == kSimulated, here = arguments.machine.empty();
  if (!simulated && !here) place.machine = read_machine_file(arguments.machine);
  if (!here) {
    const Roofline rates = place.machine ? place.machine->machine.rates : Roofline{};
    const bool fast = rates.bf16_flops_per_second > rates.flops_per_second;
    source.bf16 = {fast, fmt::format("products of bf16 are {} on {}", fast ? "faster" : "no faster", arguments.machine)};
  }
  Config config = read_settings_only(source.settings, source.bf16);
  if (simulated) place.machine = simulated_machine(config.threads);
  return {std::move(source), std::move(config), std::move(place)};
}

// The plan, its frontier, or both: without a budget of the user's the frontier says more than one plan.
std::string text_of(const nlohmann::json& plan, bool budget_given) {
  if (!plan.contains("frontier")) return plan_text(plan);
  const std::string frontier = frontier_text(plan, colour_allowed_in_output());
  return budget_given || plan.at("status") != "fits" ? plan_text(plan) + "\n" + frontier : frontier;
}

void write_files(const PlanArguments& arguments, const nlohmann::json& plan, bool fits) {
  if (!arguments.out.empty() && fits) write_file_atomically(arguments.out, plan.dump(1) + "\n");
  if (!arguments.svg.empty()) write_file_atomically(arguments.svg, frontier_svg(curve_of(plan)));
}

}  // namespace

int run_plan(const PlanArguments& arguments) {
  if (!arguments.diff.empty()) return run_plan_diff(arguments);
  const auto [source, config, place] = target_of(arguments);
  const auto say = [](const std::string& line) { say_line(line); };
  PlanningInput input = planning_input(config, cache_folder(), say, place);
  input.source = source;
  const bool values = arguments.values || !arguments.out.empty();
  PlanExtras extras{values, /*levers=*/true, arguments.frontier ? kFrontierPoints : 0};
  for (const std::string& budget : arguments.at) extras.frontier_budgets.push_back(parse_bytes(budget, "--at"));
  const PlanningResult result = arguments.solve.empty() ? plan_with_extras(config, input, extras)
                                                        : solve(config, std::move(input), arguments.solve, extras);
  nlohmann::json object = nlohmann::json::parse(result.text);
  write_files(arguments, object, result.plan.has_value());
  if (!arguments.instance.empty() && result.plan) {
    write_file_atomically(arguments.instance, instance_text(config, input, *result.plan));
  }
  if (arguments.json) {
    if (!arguments.values) object.erase("values");
    fmt::print("{}\n", object.dump());
  } else {
    fmt::print("{}", text_of(object, config.memory.budget.has_value()));
    if (arguments.values && arguments.out.empty() && result.plan) {
      for (const nlohmann::json& value : object.at("values")) fmt::print("{}\n", value.dump());
    }
  }
  return static_cast<int>(result.plan ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace plimsoll
