#include "report/plan_facts.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/bounded_json.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr JsonLimits kPlanLimits{.bytes = 64 << 20, .values = 4'000'000, .depth = 32};
constexpr std::size_t kMostNames = 64, kMostPoints = 4096;
constexpr double kMostBytes = 1e18;

const json& member(const json& object, const char* key) {
  static const json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found != object.end() ? *found : kNone;
}

std::string text_in(const json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

std::optional<double> number_in(const json& value) {
  if (!value.is_number()) return {};
  const auto number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> whole_in(const json& value) {
  const std::optional<double> number = number_in(value);
  return number && std::abs(*number) < kMostBytes ? std::optional(static_cast<std::int64_t>(*number)) : std::nullopt;
}

std::optional<Bytes> bytes_in(const json& value) {
  const std::optional<std::int64_t> n = whole_in(value);
  return n && *n >= 0 ? std::optional(Bytes{*n}) : std::nullopt;
}

std::vector<NamedBytes> named_bytes(const json& object) {
  std::vector<NamedBytes> all;
  if (!object.is_object()) return all;
  for (const auto& [name, value] : object.items()) {
    if (const auto bytes = bytes_in(value); bytes && all.size() < kMostNames) all.push_back({name, bytes->n});
  }
  return all;
}

std::vector<NamedBytes> listed_bytes(const json& list, const char* key) {
  std::vector<NamedBytes> all;
  if (!list.is_array()) return all;
  for (const json& each : list) {
    if (const auto bytes = bytes_in(member(each, key)); bytes && all.size() < kMostNames) {
      all.push_back({text_in(member(each, "name")), bytes->n});
    }
  }
  return all;
}

std::vector<double> numbers_in(const json& list) {
  std::vector<double> all;
  if (!list.is_array() || list.size() > kMostPoints) return all;
  for (const json& each : list) {
    const std::optional<double> number = number_in(each);
    if (!number || *number < 0 || *number > kMostBytes) return {};
    all.push_back(*number);
  }
  return all;
}

std::vector<PlannedSeries> timeline_in(const json& list, const std::string& tier) {
  std::vector<PlannedSeries> all;
  if (!list.is_array()) return all;
  for (const json& each : list) {
    PlannedSeries series{text_in(member(each, "phase")), numbers_in(member(each, "steps")), {}};
    if (series.steps.empty() || !std::ranges::is_sorted(series.steps) || all.size() >= kMostNames) continue;
    const json& owners = member(member(each, "tiers"), tier.c_str());
    if (!owners.is_object()) continue;
    for (const auto& [owner, bytes] : owners.items()) {
      std::vector<double> levels = numbers_in(bytes);
      if (levels.size() == series.steps.size() && series.owners.size() < kMostNames) {
        series.owners.emplace_back(owner, std::move(levels));
      }
    }
    all.push_back(std::move(series));
  }
  return all;
}

PlanFacts facts_of(const json& plan) {
  PlanFacts facts;
  const json &predicted = member(plan, "predicted"), &run = member(plan, "run"), &bounds = member(plan, "bounds");
  if (!predicted.is_object()) return facts;
  facts.found = true;
  facts.model = text_in(member(member(plan, "subject"), "model"));
  facts.rate = text_in(member(member(plan, "words"), "rate"));
  facts.update_seconds = number_in(member(predicted, "update_seconds"));
  facts.tokens_per_second = number_in(member(predicted, "tokens_per_second"));
  facts.evaluation_seconds = number_in(member(run, "evaluation_seconds"));
  facts.save_seconds = number_in(member(run, "save_seconds"));
  facts.updates = whole_in(member(run, "updates")), facts.parameters = whole_in(member(run, "parameters"));
  facts.epochs = number_in(member(run, "epochs"));
  facts.memory = bytes_in(member(member(plan, "budget"), "memory"));
  facts.process = bytes_in(member(predicted, "process_bytes"));
  facts.floor = bytes_in(member(bounds, "floor_bytes")), facts.knee = bytes_in(member(bounds, "knee_bytes"));
  facts.ceiling = bytes_in(member(bounds, "ceiling_bytes"));
  facts.reserve = listed_bytes(member(predicted, "reserve"), "bytes");
  facts.tiers = listed_bytes(member(predicted, "tiers"), "arena_bytes");
  if (!facts.tiers.empty()) facts.tier = facts.tiers.front().name;
  facts.run_folder = named_bytes(member(plan, "run_folder"));
  if (const json& phases = member(predicted, "phases"); phases.is_array()) {
    for (const json& each : phases) {
      const auto live = bytes_in(member(each, "live_bytes")), arena = bytes_in(member(each, "arena_bytes"));
      if (!live || !arena || facts.phases.size() >= kMostNames) continue;
      facts.phases.push_back({text_in(member(each, "name")), *live, *arena, named_bytes(member(each, "owners"))});
    }
  }
  facts.timeline = timeline_in(member(plan, "timeline"), facts.tier);
  if (const json& blocks = member(member(plan, "decisions"), "recompute"); blocks.is_array()) {
    for (const json& block : blocks) {
      if (const std::string mode = text_in(member(block, "mode")); facts.modes.size() < kMostNames) ++facts.modes[mode];
    }
  }
  return facts;
}

}  // namespace

PlanFacts read_plan_facts(const std::filesystem::path& run) {
  try {
    return facts_of(read_json_object(run / "plan.json", kPlanLimits, "E-IO-READ"));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace plimsoll
