#include "cli/plan/plan_diff.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "cli/say.h"
#include "prepare/plan_file.h"

namespace plimsoll {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// A list of objects as an object by their names, so that order and position make no difference.
template <typename Fact>
ordered_json by_name(const json& list, const char* key, Fact&& fact) {
  ordered_json object = ordered_json::object();
  for (const json& element : list) object[element.at(key).get<std::string>()] = fact(element);
  return object;
}

ordered_json some(const json& object, std::initializer_list<const char*> keys) {
  ordered_json chosen = ordered_json::object();
  for (const char* key : keys) chosen[key] = object.at(key);
  return chosen;
}

std::string mode_of(const json& block) {
  const std::string mode = block.at("mode").get<std::string>();
  if (block.value("joined", false)) return mode + " with the block before";
  if (block.contains("values")) {
    return fmt::format("{} ({})", mode, fmt::join(block.at("values").get<std::vector<std::string>>(), ", "));
  }
  return block.value("pieces", false) ? mode + " in pieces" : mode;
}

ordered_json predicted_facts(const json& predicted) {
  ordered_json facts =
      some(predicted, {"update_seconds", "stall_seconds", "tokens_per_second", "process_bytes", "arena_bytes", "live_bytes"});
  facts["reserve"] = by_name(predicted.at("reserve"), "name", [](const json& item) { return item.at("bytes"); });
  facts["host_bytes"] = predicted.value("host_bytes", json());
  facts["host_reserve"] =
      by_name(predicted.value("host_reserve", json::array()), "name", [](const json& item) { return item.at("bytes"); });
  // The arena of the first one is `arena_bytes`.
  facts["tiers"] = by_name(predicted.at("tiers"), "name", [](const json& tier) { return tier.at("arena_bytes"); });
  facts["tiers"].erase(predicted.at("tiers").at(0).at("name").get<std::string>());
  facts["phases"] = by_name(predicted.at("phases"), "name", [](const json& phase) {
    return some(phase, {"arena_bytes", "live_bytes", "owners"});
  });
  return facts;
}

ordered_json facts_of(const json& plan) {
  ordered_json facts =
      some(plan, {"plan_hash", "graph_hash", "config_hash", "machine_hash", "threads", "precision", "budget", "batch"});
  const json& decisions = plan.at("decisions");
  facts["decisions"] = some(decisions, {"group", "loss_chunks", "paging"});
  facts["decisions"]["replays"] = decisions.at("replays").size();
  facts["decisions"]["recompute"] = by_name(decisions.at("recompute"), "block", mode_of);
  facts["predicted"] = predicted_facts(plan.at("predicted"));
  facts["bounds"] = plan.at("bounds");
  return facts;
}

ordered_json value_fact(const json& value) {
  const json& ranges = value.at("ranges");
  return {{"action", value.at("action").get<std::string>()},
          {"tier", value.at("tier").get<std::string>()},
          {"bytes", value.at("bytes").get<std::int64_t>()},
          {"offset", ranges.empty() ? json(nullptr) : ranges.at(0).at("offset")}};
}

// Values by name, as ids shift with every recomputed copy. Values of one name are numbered by order.
ordered_json values_of(const json& plan) {
  if (!plan.contains("values")) return nullptr;
  std::map<std::string, int> seen;
  std::map<std::string, ordered_json> values;
  for (const json& value : plan.at("values")) {
    const std::string name = value.at("name").get<std::string>();
    const int number = ++seen[name];
    values[number == 1 ? name : fmt::format("{} ({})", name, number)] = value_fact(value);
  }
  return values;
}

void add_change(ordered_json& changes, const json::json_pointer& path, const ordered_json& a, const ordered_json& b) {
  changes.push_back({{"path", path.to_string()}, {"a", a}, {"b", b}});
}

void collect(const ordered_json& a, const ordered_json& b, const json::json_pointer& path, ordered_json& changes) {
  if (!a.is_object() && !b.is_object()) {
    if (a != b) add_change(changes, path, a, b);
    return;
  }
  const ordered_json none;
  const auto side = [&](const ordered_json& object, const std::string& key) -> const ordered_json& {
    return object.is_object() && object.contains(key) ? object.at(key) : none;
  };
  if (a.is_object()) {
    for (const auto& [key, value] : a.items()) collect(value, side(b, key), path / key, changes);
  }
  if (!b.is_object()) return;
  for (const auto& [key, value] : b.items()) {
    if (!a.is_object() || !a.contains(key)) collect(none, value, path / key, changes);
  }
}

// The differences of whole values. An index replaces the search in an ordered object with thousands of keys, which is slow.
void collect_values(const ordered_json& a, const ordered_json& b, ordered_json& changes) {
  std::map<std::string, std::pair<ordered_json, ordered_json>> sides;
  for (const auto& [name, value] : a.items()) sides[name].first = value;
  for (const auto& [name, value] : b.items()) sides[name].second = value;
  for (const auto& [name, both] : sides) {
    if (both.first != both.second) add_change(changes, json::json_pointer("/values") / name, both.first, both.second);
  }
}

ordered_json read_side(const std::string& path) {
  const json plan = read_plan(path);
  if (plan.value("status", json()) != "fits") throw not_a_plan(path, "it says why nothing fits; it holds no plan");
  try {
    return compared_part(plan);
  } catch (const json::exception& error) {
    throw not_a_plan(path, fmt::format("it is broken: {}", error.what()));
  }
}

}  // namespace

ordered_json compared_part(const json& plan) { return {{"facts", facts_of(plan)}, {"values", values_of(plan)}}; }

ordered_json plan_diff(const ordered_json& a, const ordered_json& b) {
  ordered_json changes = ordered_json::array();
  collect(a.at("facts"), b.at("facts"), json::json_pointer(), changes);
  const bool values = a.at("values").is_object() && b.at("values").is_object();
  if (values) collect_values(a.at("values"), b.at("values"), changes);
  return {{"schema", "plimsoll.plan-diff/1"},
          {"equal", changes.empty()},
          {"values_compared", values},
          {"changes", std::move(changes)}};
}

int run_plan_diff(const PlanArguments& arguments) {
  const std::string &a = arguments.diff.at(0), &b = arguments.diff.at(1);
  const ordered_json diff = plan_diff(read_side(a), read_side(b));
  if (arguments.json) {
    print_json(diff);
  } else {
    print_text(fmt::format("a: {}\nb: {}\n{}", a, b, diff_text(diff)));
  }
  return static_cast<int>(ExitCode::ok);
}

}  // namespace plimsoll
