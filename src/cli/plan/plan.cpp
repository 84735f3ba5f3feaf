#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory_limit.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/patience.h"
#include "cli/plan/frontier_curve.h"
#include "cli/plan/frontier_svg.h"
#include "cli/plan/plan_diff.h"
#include "cli/plan/plan_export.h"
#include "cli/plan/plan_frontier.h"
#include "cli/plan/plan_text.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "cli/shown_text.h"
#include "cli/signals.h"
#include "cli/spelling.h"
#include "formats/atomic_file.h"
#include "measure/simulated_machine.h"
#include "prepare/planning.h"
#include "prepare/solve.h"
#include "session/probe.h"

namespace plimsoll {

namespace {

constexpr int kFrontierPoints = 16;

constexpr const char* kSimulated = "sim";

// A configuration, and its machine: this computer, a described one, or the simulated one with the threads of the configuration.
struct Target {
  ConfigSource source;
  Config config;
  PlanningPlace place;
};

Target target_of(const PlanArguments& arguments) {
  PlanningPlace place{.machine = {}, .probe = probe_shape, .runs_now = false};
  ConfigSource source{.settings = read_settings_of(with_data(arguments.config))};
  const bool simulated = arguments.machine == kSimulated, here = arguments.machine.empty();
  if (!simulated && !here) place.machine = read_machine_file(arguments.machine);
  if (!here) {
    const Roofline rates = place.machine ? place.machine->machine.rates : Roofline{};
    const bool fast = rates.bf16_flops_per_second > rates.flops_per_second;
    source.bf16 = {fast, fmt::format("products of bf16 are {} on {}", fast ? "faster" : "no faster", arguments.machine)};
  }
  Config config = read_settings_only(source.settings, source.bf16);
  if (simulated) place.machine = simulated_machine(config.threads);
  if (arguments.rank >= arguments.ranks) {
    throw config_error("E-USAGE", "--rank", fmt::format("it is {}", arguments.rank),
                       fmt::format("0 to {}, below the number of ranks", arguments.ranks - 1));
  }
  place.share = {arguments.ranks > 1 ? arguments.rank : 0, arguments.ranks};
  return {std::move(source), std::move(config), std::move(place)};
}

void print(const std::string& text) {
  print_marked(text);
  std::fflush(stdout);
}

// Prints the progress of planning for people: the verdict as soon as it is known, then the alternatives, then the frontier.
// Without a budget from the user, the frontier is shown alone.
class Printer {
 public:
  Printer(bool frontier, bool budget_given) : frontier_(frontier), budget_given_(budget_given) {}

  void decided(nlohmann::json plan) {
    patience_.reset();
    spell_changes(plan);
    if (shows_plan(plan)) print(shown_text(verdict_text(plan)));
    patience_.emplace(plan.at("status") == "fits" ? "looking at levers" : "looking for changes that make it fit");
  }
  void ended(const nlohmann::json& plan) {
    patience_.reset();
    if (shows_plan(plan)) print(shown_text(alternatives_text(plan)));
    if (!frontier_) return;
    const bool colour = colour_allowed_in_output();
    const std::string frontier = frontier_text(plan, colour);
    print((shows_plan(plan) ? "\n" : "") + (colour ? frontier : shown_text(frontier)));
  }

 private:
  bool shows_plan(const nlohmann::json& plan) const { return !frontier_ || budget_given_ || plan.at("status") != "fits"; }

  bool frontier_, budget_given_;
  std::optional<Patience> patience_{std::in_place, "planning"};
};

// The paths of the requested output files; empty: none.
struct Outputs {
  explicit Outputs(const PlanArguments& arguments)
      : out(output_file(arguments.out)), svg(output_file(arguments.svg)), instance(output_file(arguments.instance)) {}

  std::filesystem::path out, svg, instance;
};

void write_files(const Outputs& outputs, const nlohmann::json& plan, bool fits) {
  if (!outputs.out.empty() && fits) write_file_atomically(outputs.out, plan.dump(1) + "\n");
  if (!outputs.svg.empty()) write_file_atomically(outputs.svg, frontier_svg(curve_of(plan)));
}

int plan_for(const PlanArguments& arguments, const Outputs& outputs, const Target& target, bool floors_alone) {
  const auto& [source, config, place] = target;
  Printer printer(arguments.frontier, config.memory.budget.has_value());
  const auto say = [&](const std::string& line) {
    if (!floors_alone) say_line(line);  // the first child has said the same
  };
  PlanningInput input = planning_input(config, cache_folder(), say, place);
  input.source = source;
  input.other_ranks = config.device == DeviceChoice::cpu && config.memory.budget.has_value();
  input.request.floor_only = floors_alone;
  const bool values = arguments.values || !arguments.out.empty();
  PlanExtras extras{.values = values, .levers = true, .frontier_points = arguments.frontier ? kFrontierPoints : 0};
  extras.answers = outputs.instance.empty();  // an instance is a training alone
  if (!arguments.json) extras.decided = [&](const nlohmann::json& plan) { printer.decided(plan); };
  for (const std::string& budget : arguments.at) extras.frontier_budgets.push_back(parse_bytes(budget, "--at"));
  const PlanningResult result = arguments.solve.empty() ? plan_with_extras(config, input, extras)
                                                        : solve(config, std::move(input), arguments.solve, extras);
  nlohmann::json object = nlohmann::json::parse(result.text);
  spell_changes(object);
  write_files(outputs, object, result.plan.has_value());
  if (!outputs.instance.empty() && result.plan) {
    Config planned = config;
    if (input.facts.share.ranks > 1) planned.parallel.zero = result.plan->decisions.zero;
    write_file_atomically(outputs.instance, instance_text(planned, input, *result.plan));
  }
  if (arguments.json) {
    if (!arguments.values) object.erase("values");
    print_json(object);
  } else {
    printer.ended(object);
    if (arguments.values && arguments.out.empty() && result.plan) {
      for (const nlohmann::json& value : object.at("values")) print_json(value);
    }
  }
  return static_cast<int>(result.plan ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace

int run_plan(const PlanArguments& arguments) {
  if (!arguments.diff.empty()) return run_plan_diff(arguments);
  end_on_interrupt(arguments.json);
  const Outputs outputs(arguments);
  const Target target = target_of(arguments);
  const MemoryLimit limit(planning_memory(target.config, target.place));
  if (!arguments.solve.empty()) return plan_for(arguments, outputs, target, false);
  return std::stoi(plan_in_child([&](bool floors_alone) {
    ::signal(SIGINT, SIG_DFL);  // the parent reports it
    const int code = plan_for(arguments, outputs, target, floors_alone);
    std::fflush(nullptr);
    return std::to_string(code);
  }));
}

}  // namespace plimsoll
