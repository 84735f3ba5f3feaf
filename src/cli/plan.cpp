#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/plan_text.h"
#include "cli/settings.h"
#include "formats/atomic_file.h"
#include "train/planning.h"
#include "train/simulated_machine.h"

namespace plimsoll {

namespace {

PlanningPlace place_of(const PlanArguments& arguments, const Config& config) {
  PlanningPlace place{{}, /*runs_now=*/false};
  if (arguments.machine == "sim")
    place.machine = simulated_machine(config.threads);
  else if (!arguments.machine.empty())
    place.machine = read_machine_file(arguments.machine);
  return place;
}

}  // namespace

int run_plan(const PlanArguments& arguments) {
  const Config config = load_settings(arguments.config);
  const auto say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const PlanningInput input = planning_input(config, cache_folder(), say, place_of(arguments, config));
  const bool values = arguments.values || !arguments.out.empty();
  const PlanningResult result = plan_with_extras(config, input, {values, /*levers=*/true});
  nlohmann::json object = nlohmann::json::parse(result.text);
  if (!arguments.out.empty() && result.plan) write_file_atomically(arguments.out, object.dump(1) + "\n");
  if (arguments.json) {
    if (!arguments.values) object.erase("values");
    fmt::print("{}\n", object.dump());
  } else {
    fmt::print("{}", plan_text(object));
    if (arguments.values && result.plan) {
      for (const nlohmann::json& value : object.at("values")) fmt::print("{}\n", value.dump());
    }
  }
  return static_cast<int>(result.plan ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace plimsoll
