#include "records/compare_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "config/config_keys.h"
#include "formats/bounded_json.h"
#include "records/checkpoints.h"
#include "weights/checkpoint.h"

namespace plimsoll {
namespace {

using nlohmann::json;

using Facts = std::map<std::string, std::string>;

std::string quoted(const std::string& text) { return json(text).dump(-1, ' ', false, json::error_handler_t::replace); }

void add(Facts& facts, const std::string& key, const std::string& text) {
  if (!text.empty()) facts[key] = quoted(text);
}
void add(Facts& facts, const std::string& key, std::optional<std::int64_t> number) {
  if (number) facts[key] = std::to_string(*number);
}
void add(Facts& facts, const std::string& key, std::optional<Bytes> bytes) {
  if (bytes) facts[key] = std::to_string(bytes->n);
}

// The decisions of the plan with one value each, and the number of blocks with each kind of recomputation.
void add_decisions(Facts& facts, const std::filesystem::path& folder) {
  constexpr JsonLimits kPlanLimits{.bytes = 64 << 20, .values = 4'000'000, .depth = 32};
  try {
    const json plan = read_json_object(folder / "plan.json", kPlanLimits, "E-IO-READ");
    const json& decisions = plan.at("decisions");
    for (const char* key : {"group", "loss_chunks"}) facts[std::string("plan.") + key] = decisions.at(key).dump();
    if (const json& paging = decisions.at("paging"); paging.is_object()) {
      for (const auto& [key, value] : paging.items()) {
        if (value.is_primitive()) facts["plan.paging." + key] = value.dump();
      }
    }
    std::map<std::string, std::int64_t> modes;
    for (const json& block : decisions.at("recompute")) ++modes[block.at("mode").get<std::string>()];
    for (const auto& [mode, count] : modes) facts["plan.blocks." + mode] = std::to_string(count);
  } catch (const std::exception&) {  // without a plan there is nothing to compare
  }
}

// The hash of the weights with which a run began, if they came from files.
void add_base(Facts& facts, const Run& run, const Facts& settings) {
  const auto init = settings.find("model.init");
  if (init == settings.end() || init->second.empty() || init->second == "\"\"" || init->second == "\"random\"") return;
  try {
    const std::vector<KeptCheckpoint> kept = checkpoints_in(run.path);
    if (!kept.empty()) add(facts, "base.weights", read_progress(kept.back().path).origin.weights);
  } catch (const std::exception&) {
  }
}

Facts facts_of(const Run& run) {
  Facts facts = settings_of_run(run.path);
  add_base(facts, run, Facts(facts));
  add(facts, "data.hash", run.data.hash);
  add(facts, "data.validation_hash", run.data.validation_hash);
  add(facts, "data.samples", run.data.samples);
  add(facts, "data.tokens", run.data.tokens);
  add(facts, "data.trained", run.data.trained);
  for (const auto& [name, count] : run.data.counts) add(facts, "data." + name, count);
  const RunEnvironment& machine = run.environment;
  add(facts, "machine.processor", machine.processor);
  add(facts, "machine.system", machine.system);
  add(facts, "machine.instruction_set", machine.instruction_set);
  add(facts, "machine.libraries", fmt::format("{}", fmt::join(machine.libraries, ", ")));
  add(facts, "program.version", machine.version);
  add(facts, "program.commit", machine.commit);
  add(facts, "plan.micro_batch", std::optional(run.micro_batch));
  add(facts, "plan.accumulation", std::optional(run.accumulation));
  add(facts, "plan.units_per_update", std::optional(run.units_per_update));
  add(facts, "plan.process_bytes", run.predicted.process);
  add(facts, "plan.arena_bytes", run.predicted.arena);
  add_decisions(facts, run.path);
  if (run.parent) add(facts, "parent", fmt::format("{}/{}", run.parent->first, run.parent->second));
  add(facts, "fault", run.fault);
  return facts;
}

std::vector<RunDifference> differences_of(std::span<const Facts> all) {
  std::set<std::string> keys;
  for (const Facts& facts : all) {
    for (const auto& [key, value] : facts) keys.insert(key);
  }
  std::vector<RunDifference> differences;
  for (const std::string& key : keys) {
    RunDifference difference{key, {}};
    for (const Facts& facts : all) {
      const auto found = facts.find(key);
      difference.values.push_back(found != facts.end() ? std::optional(found->second) : std::nullopt);
    }
    const auto& values = difference.values;
    if (std::ranges::adjacent_find(values, std::ranges::not_equal_to()) != values.end()) {
      differences.push_back(std::move(difference));
    }
  }
  return differences;
}

// Empty if the texts are the same; else `what` with each of them, shortened.
std::string difference(const char* what, std::span<const Run> runs, const std::function<std::string(const Run&)>& text) {
  std::vector<std::string> texts;
  for (const Run& run : runs) texts.push_back(text(run));
  if (std::ranges::adjacent_find(texts, std::ranges::not_equal_to()) == texts.end()) return "";
  constexpr std::size_t kMost = 12;
  for (std::string& each : texts) each = each.empty() ? "none" : each.substr(0, kMost);
  return fmt::format("{} differs: {}", what, fmt::join(texts, ", "));
}

Comparable comparable_validation(std::span<const Run> runs) {
  std::string why = difference("validation_hash", runs, [](const Run& run) { return run.data.validation_hash; });
  if (why.empty()) {
    why = difference("units", runs, [](const Run& run) { return run.best ? std::to_string(run.best->units) : std::string(); });
  }
  if (why.empty() && std::ranges::none_of(runs, [](const Run& run) { return run.best.has_value(); }))
    why = "no run has been evaluated";
  return {why.empty(), why};
}

Comparable comparable_training(std::span<const Run> runs, std::span<const RunDifference> differences) {
  std::string why = difference("data_hash", runs, [](const Run& run) { return run.data.hash; });
  for (const RunDifference& each : differences) {
    const auto key = std::ranges::find(config_keys(), each.key, &ConfigKey::name);
    if (why.empty() && key != config_keys().end() && key->in_loss) why = each.key + " differs";
  }
  return {why.empty(), why};
}

std::optional<double> as_number(const std::optional<Bytes>& bytes) {
  return bytes ? std::optional(static_cast<double>(bytes->n)) : std::nullopt;
}

}  // namespace

RunSpeed speed_of(const std::filesystem::path& run) {
  double seconds = 0, units = 0, positions = 0, waited = 0;
  bool waits = false;
  read_metrics(run, [&](const Metrics& metrics) {
    seconds += metrics.seconds;
    units += static_cast<double>(metrics.units), positions += static_cast<double>(metrics.positions);
    waited += metrics.wait_seconds.value_or(0), waits = waits || metrics.wait_seconds;
  });
  if (seconds <= 0) return {};
  return {units / seconds, positions / seconds, waits ? std::optional(waited / seconds) : std::nullopt};
}

RunComparison compare_runs(std::span<const Run> runs) {
  RunComparison comparison;
  std::vector<Facts> all;
  for (const Run& run : runs) all.push_back(facts_of(run));
  comparison.differences = differences_of(all);
  comparison.validation = comparable_validation(runs);
  comparison.training = comparable_training(runs, comparison.differences);
  std::vector<RunSpeed> speeds;
  for (const Run& run : runs) speeds.push_back(speed_of(run.path));
  const auto add = [&](const char* key, const std::function<std::optional<double>(const Run&, const RunSpeed&)>& value) {
    RunFigure figure{key, {}};
    for (std::size_t i = 0; i < runs.size(); ++i) figure.values.push_back(value(runs[i], speeds[i]));
    if (std::ranges::any_of(figure.values, [](const auto& each) { return each.has_value(); })) {
      comparison.figures.push_back(std::move(figure));
    }
  };
  using Speed = const RunSpeed&;
  const bool validation = comparison.validation.same;
  add("updates", [](const Run& run, Speed) { return std::optional(static_cast<double>(run.updates)); });
  add("samples", [](const Run& run, Speed) { return std::optional(static_cast<double>(run.samples)); });
  add("loss", [](const Run& run, Speed) { return run.loss; });
  add("best_loss", [&](const Run& run, Speed) { return validation && run.best ? std::optional(run.best->loss) : std::nullopt; });
  add("best_update", [&](const Run& run, Speed) {
    return validation && run.best ? std::optional(static_cast<double>(run.best->update)) : std::nullopt;
  });
  add("validation_loss", [&](const Run& run, Speed) { return validation ? run.validation_loss : std::nullopt; });
  add("accuracy", [&](const Run& run, Speed) { return validation ? run.accuracy : std::nullopt; });
  add("seconds", [](const Run& run, Speed) { return std::optional(run.seconds); });
  add("trained_tokens_per_second", [](const Run&, Speed speed) { return speed.trained; });
  add("all_tokens_per_second", [](const Run&, Speed speed) { return speed.all; });
  add("wait_share", [](const Run&, Speed speed) { return speed.wait_share; });
  add("process_bytes", [](const Run& run, Speed) { return as_number(run.measured.process); });
  add("arena_bytes", [](const Run& run, Speed) { return as_number(run.measured.arena); });
  return comparison;
}

}  // namespace plimsoll
