#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/plan_text.h"
#include "formats/atomic_file.h"
#include "train/child.h"
#include "train/planning.h"

namespace plimsoll {

int run_plan(const PlanArguments& arguments) {
  const Config config =
      load_config(arguments.config, arguments.sets, {arguments.budgets.memory, arguments.budgets.host_memory, arguments.budgets.disk});
  for (const std::string& note : config.notes) fmt::print(stderr, "note: {}\n", note);
  PlanningInput input = planning_input(config, cache_folder(), [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  if (!arguments.machine.empty()) input.machine = read_machine_file(arguments.machine);
  const bool values = arguments.values || !arguments.out.empty();
  const PlanningResult result = plan_with_extras(config, input, {values, /*levers=*/true});
  if (!arguments.out.empty() && result.plan) write_file_atomically(arguments.out, result.object.dump(1) + "\n");
  if (arguments.json) {
    nlohmann::json object = result.object;
    if (!arguments.values) object.erase("values");
    fmt::print("{}\n", object.dump());
  } else {
    fmt::print("{}", plan_text(result.object));
    if (arguments.values && result.plan) {
      for (const nlohmann::json& value : result.object.at("values")) fmt::print("{}\n", value.dump());
    }
  }
  return static_cast<int>(result.plan ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace plimsoll
