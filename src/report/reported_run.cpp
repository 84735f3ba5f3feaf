#include "report/reported_run.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "records/run_note.h"

namespace plimsoll {

using nlohmann::json;

std::string ReportedRun::setting(const std::string& key) const {
  const auto found = settings.find(key);
  if (found == settings.end()) return "";
  const json value = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : found->second;
}

std::optional<double> ReportedRun::number(const std::string& key) const {
  const auto found = settings.find(key);
  if (found == settings.end()) return {};
  const json value = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!value.is_number()) return {};
  const auto number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::int64_t ReportedRun::last_update() const {
  const std::optional<double> set = number("train.updates");
  const std::int64_t planned = plan.updates.value_or(set && *set < 1e15 ? static_cast<std::int64_t>(*set) : 0);
  return std::max(planned, run.updates);
}

std::string ReportedRun::units() const {
  constexpr std::string_view kEnd = "/s";
  std::string unit = plan.rate;
  if (unit.ends_with(kEnd)) unit.resize(unit.size() - kEnd.size());
  return unit.empty() || unit.find("tok") != std::string::npos ? "tokens" : unit;
}

ReportedRun read_reported_run(const std::filesystem::path& folder) {
  ReportedRun reported;
  reported.run = open_run_records(folder);
  reported.settings = settings_of_run(folder);
  reported.note = note_of_run(folder);
  reported.plan = read_plan_facts(folder);
  reported.history = read_history(reported.run, reported.number("train.gradient_clip").value_or(0));
  return reported;
}

}  // namespace plimsoll
