#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/progress.h"
#include "cli/runs/run_facts.h"
#include "cli/say.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> runs_in(const std::vector<std::string>& folders) {
  std::vector<fs::path> found;
  for (const std::string& folder : folders.empty() ? std::vector<std::string>{"."} : folders) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) {
      throw config_error("E-USAGE", folder, "there is no such folder", "a folder with runs, or the folder of a run");
    }
    for (const fs::path& run : find_runs(folder)) found.push_back(run.lexically_normal());
  }
  // Folders may lie in each other.
  std::vector<fs::path> once;
  for (fs::path& run : found) {
    if (std::ranges::find(once, run) == once.end()) once.push_back(std::move(run));
  }
  return once;
}

struct Condition {
  std::string key, value;
};

Condition condition_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    throw config_error("E-USAGE", "--where", fmt::format("'{}' has no '='", text), "key=value, such as optimizer.name=adamw");
  }
  Condition condition{text.substr(0, equals), text.substr(equals + 1)};
  check_run_key(condition.key, "--where");
  return condition;
}

// Numbers are equal as numbers: 1e-3 is 0.001.
bool meets(const ListedRun& listed, const Condition& condition) {
  const std::optional<std::string> fact = run_fact(listed, condition.key);
  if (!fact) return condition.value.empty();
  if (*fact == condition.value) return true;
  const auto a = number_in(*fact), b = number_in(condition.value);
  return a && b && *a == *b;
}

// Numbers come before texts, and runs without the fact last.
void sort_runs(std::vector<ListedRun>& runs, const std::string& named) {
  const bool falls = named.starts_with("-");
  const std::string key = falls ? named.substr(1) : named;
  check_run_key(key, "--sort");
  const auto before = [&](const ListedRun& a, const ListedRun& b) {
    const auto x = run_fact(a, key), y = run_fact(b, key);
    if (!x || !y) return x.has_value() && !y.has_value();
    const auto m = number_in(*x), n = number_in(*y);
    if (m && n) return falls ? *n < *m : *m < *n;
    if (m || n) return m.has_value();
    return falls ? *y < *x : *x < *y;
  };
  std::ranges::stable_sort(runs, before);
}

std::vector<std::string> row_of(const ListedRun& listed) {
  const Run& run = listed.run;
  if (run.status.empty()) return {run.path.string(), state_text(run), "-", "-", "-", "-", "-", "-", "-"};
  return {run.path.string(),
          state_text(run),
          std::to_string(run.updates),
          loss_text(run.loss),
          loss_text(run.best ? std::optional(run.best->loss) : std::nullopt),
          std::to_string(run.effective_batch),
          listed.learning_rate ? fmt::format("{:.2g}", *listed.learning_rate) : "-",
          duration_text(run.seconds),
          run.measured.process ? to_text(*run.measured.process) : "-"};
}

}  // namespace

int run_runs_list(const RunsListArguments& arguments) {
  std::vector<Condition> conditions;
  for (const std::string& text : arguments.where) conditions.push_back(condition_of(text));
  std::vector<ListedRun> runs;
  for (const fs::path& folder : runs_in(arguments.folders)) {
    ListedRun listed = listed_run(folder);
    if (std::ranges::all_of(conditions, [&](const Condition& each) { return meets(listed, each); }))
      runs.push_back(std::move(listed));
  }
  if (!arguments.sort.empty()) sort_runs(runs, arguments.sort);
  if (arguments.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const ListedRun& listed : runs) all.push_back(run_json(listed));
    print_json(nlohmann::json{{"schema", "plimsoll.runs/1"}, {"runs", all}});
    return 0;
  }
  if (runs.empty()) {
    say_line("no runs");
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"run", "state", "updates", "loss", "best", "batch", "rate", "time", "process"}};
  for (const ListedRun& listed : runs) rows.push_back(row_of(listed));
  print_text(table_text(std::move(rows), output_columns()));
  return 0;
}

}  // namespace plimsoll
