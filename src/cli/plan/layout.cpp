#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/shell.h"
#include "cli/commands.h"
#include "cli/plan/layout_csv.h"
#include "cli/say.h"
#include "formats/atomic_file.h"
#include "plan/layout/judge.h"
#include "plan/layout/place.h"

namespace plimsoll {
int run_layout(const LayoutArguments& arguments) {
  if (arguments.capacity.has_value() == arguments.minimize) {
    throw config_error("E-USAGE", "layout", "give either --capacity or --minimize", "one of the two",
                       {fmt::format("plimsoll layout {} --minimize", shell_quoted(arguments.file))});
  }
  const std::filesystem::path out = output_file(arguments.out);
  const std::int64_t work_limit = arguments.work_limit.value_or(-1);  // -1: until the result is decided
  const layout::NamedProblem csv = layout::read_csv_file(arguments.file);
  const double start = cpu_seconds_now();
  layout::Solution solution;
  std::string status = "fits";
  bool optimal = false;
  if (arguments.minimize) {
    layout::Placement placement = layout::minimize(csv.problem, work_limit);
    optimal = placement.optimal();
    solution = std::move(placement.solution);
  } else {
    layout::SearchResult result = layout::solve(csv.problem, *arguments.capacity, work_limit);
    status = layout::status_name(result.status);
    solution = std::move(result.solution);
    optimal = status == "fits" && solution.height == layout::lower_bound(csv.problem);
  }
  const double seconds = cpu_seconds_now() - start;
  const bool fits = status == "fits";
  if (fits && !layout::judge(csv.problem, solution, arguments.capacity.value_or(-1)).empty()) {
    throw internal_error("layout", "the judge refuses the solver's answer");
  }
  if (fits && !out.empty()) write_file_atomically(out, layout::write_csv(csv, solution));
  const std::int64_t load = layout::load(csv.problem);
  if (arguments.json) {
    const nlohmann::json object = {
        {"schema", "plimsoll.layout/1"},
        {"status", status},
        {"capacity", arguments.capacity ? nlohmann::json(*arguments.capacity) : nlohmann::json(nullptr)},
        {"height", fits ? nlohmann::json(solution.height) : nlohmann::json(nullptr)},
        {"load", load},
        {"optimal", optimal},
        {"cpu_seconds", seconds}};
    print_json(object);
  } else {
    // If addresses go to stdout, the report goes to stderr.
    const bool csv_follows = fits && arguments.out.empty();
    const std::string line = fmt::format("{}: height {}, load {}{} ({:.2f} CPU seconds)", status,
                                         fits ? std::to_string(solution.height) : "-", load, optimal ? ", optimal" : "", seconds);
    if (csv_follows) {
      say_line(line);
      print_text(layout::write_csv(csv, solution));
    } else {
      print_text(fmt::format("{}\n", line));
    }
  }
  return static_cast<int>(fits ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace plimsoll
