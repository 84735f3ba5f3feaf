#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/progress.h"
#include "cli/runs/run_facts.h"
#include "cli/say.h"
#include "records/compare_runs.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// A text that is no JSON stays text.
json value_of(const std::optional<std::string>& text) {
  if (!text) return {};
  json value = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json(*text) : value;
}

std::string shown(const RunDifference& difference, const std::optional<std::string>& text) {
  constexpr std::size_t kMostHash = 12;
  if (!text) return "-";
  const json value = value_of(text);
  std::string plain = value.is_string() ? value.get<std::string>() : *text;
  if (difference.key.ends_with("_bytes") && value.is_number_integer()) plain = to_text(Bytes{value.get<std::int64_t>()});
  if (difference.key.ends_with("hash") || difference.key == "base.weights") plain = plain.substr(0, kMostHash);
  return plain.empty() ? "\"\"" : plain;
}

std::string shown(const RunFigure& figure, std::optional<double> value) {
  if (!value) return "-";
  const std::string& key = figure.key;
  if (key.ends_with("_bytes")) return to_text(Bytes{static_cast<std::int64_t>(*value)});
  if (key == "seconds") return duration_text(*value);
  if (key.ends_with("_per_second")) return rate_text(*value);
  if (key == "accuracy" || key.ends_with("_share")) return fmt::format("{:.2f} %", 100 * *value);
  return key.ends_with("loss") ? loss_text(value) : fmt::format("{:.0f}", *value);
}

json object_of(const std::vector<ListedRun>& listed, const RunComparison& comparison) {
  json runs = json::array(), differences = json::array(), figures = json::array();
  for (const ListedRun& each : listed) runs.push_back(run_json(each));
  for (const RunDifference& each : comparison.differences) {
    json values = json::array();
    for (const auto& value : each.values) values.push_back(value_of(value));
    differences.push_back({{"key", each.key}, {"values", values}});
  }
  for (const RunFigure& each : comparison.figures) {
    json values = json::array();
    for (const auto& value : each.values) values.push_back(value && std::isfinite(*value) ? json(*value) : json());
    figures.push_back({{"key", each.key}, {"values", values}});
  }
  return {{"schema", "plimsoll.runs/1"},
          {"runs", runs},
          {"differences", differences},
          {"figures", figures},
          {"comparable",
           {{"validation", comparison.validation.same},
            {"why", comparison.validation.same ? json() : json(comparison.validation.why)},
            {"training", comparison.training.same},
            {"training_why", comparison.training.same ? json() : json(comparison.training.why)}}}};
}

}  // namespace

int run_runs_compare(const RunsCompareArguments& arguments) {
  std::vector<Run> runs;
  std::vector<ListedRun> listed;
  for (const std::string& folder : arguments.runs) {
    runs.push_back(open_run_records(folder));
    listed.push_back(listed_run(folder));
  }
  const RunComparison comparison = compare_runs(runs);
  if (arguments.json) {
    print_json(object_of(listed, comparison));
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{""}};
  for (const Run& run : runs) rows.front().push_back(run.name);
  const auto heading = [&](const char* text) {
    rows.push_back(std::vector<std::string>(runs.size() + 1));
    rows.back().front() = text;
  };
  if (!comparison.differences.empty()) heading("differences");
  for (const RunDifference& each : comparison.differences) {
    rows.push_back({"  " + each.key});
    for (const auto& value : each.values) rows.back().push_back(shown(each, value));
    // Bytes of the same size in words.
    const std::vector<std::string>& row = rows.back();
    if (std::adjacent_find(row.begin() + 1, row.end(), std::not_equal_to<>()) == row.end()) {
      for (std::size_t i = 0; i < each.values.size(); ++i) rows.back()[i + 1] = each.values[i].value_or("-");
    }
  }
  heading("at the end");
  rows.push_back({"  state"});
  for (const Run& run : runs) rows.back().push_back(state_text(run));
  for (const RunFigure& each : comparison.figures) {
    rows.push_back({"  " + each.key});
    for (const auto& value : each.values) rows.back().push_back(shown(each, value));
  }
  print_text(table_text(std::move(rows), kUnlimitedColumns));
  if (!comparison.validation.same) {
    print_text(fmt::format("validation losses are not compared: {}\n", comparison.validation.why));
  }
  if (!comparison.training.same) {
    print_text(fmt::format("training losses are not over the same tokens: {}\n", comparison.training.why));
  }
  return 0;
}

}  // namespace plimsoll
