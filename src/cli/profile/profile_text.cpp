#include "cli/profile/profile_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/shell.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::size_t kMostRows = 15;
constexpr std::size_t kColumns = 64;  // of a picture

std::string size(const json& bytes) { return bytes.is_null() ? "-" : to_text(Bytes{bytes.get<std::int64_t>()}); }

// With four digits at any scale.
std::string seconds(double value) {
  if (std::abs(value) >= 1) return fmt::format("{:.3f} s", value);
  return std::abs(value) >= 1e-3 ? fmt::format("{:.2f} ms", 1e3 * value) : fmt::format("{:.1f} us", 1e6 * value);
}
std::string seconds_or_none(const json& value) { return value.is_null() ? "-" : seconds(value.get<double>()); }

// The mean of an update: windows may have different micro-steps, and the pass of the noise runs in some of them.
std::string runs_text(double runs) { return fmt::format("{:.{}f}", runs, runs == std::floor(runs) ? 0 : 1); }

std::string next_text(const json& profile) {
  const json& next = profile.at("next");
  if (next.is_null()) return "nothing that was planned saves 5 %";
  std::string options;
  for (const json& argument : next.at("arguments")) options += " " + shell_quoted(argument.get<std::string>());
  return fmt::format("{}: {} an update by plan, {:.0f} % less{}\n          with{}", next.at("text").get<std::string>(),
                     seconds(next.at("update_seconds")), 100 * next.at("saved").get<double>(),
                     next.at("changes_result").get<bool>() ? "; it changes the result" : "", options);
}

std::string parts_text(const json& profile) {
  constexpr std::array<std::pair<const char*, const char*>, 6> kParts{{{"kernels", "kernels of micro-steps"},
                                                                       {"update", "kernels of the optimizer"},
                                                                       {"copies", "waits for copies"},
                                                                       {"data", "waits for data"},
                                                                       {"feed", "feeding"},
                                                                       {"other", "other"}}};
  const json& windows = profile.at("windows");
  const double all = profile.at("update_seconds");
  std::string text =
      fmt::format("update    {} measured, {} planned (mean of {} updates, after one of {})\n", seconds(all),
                  seconds(profile.at("predicted_seconds")), windows.size() - 1, seconds(windows.front().at("seconds")));
  for (const auto& [key, name] : kParts) {
    const double part = profile.at("parts").at(key);
    text += fmt::format("  {:<26}{:>12}{:>8.1f} %\n", name, seconds(part), 100 * part / all);
  }
  if (!profile.at("shared").is_null()) text += fmt::format("  note: {}\n", profile.at("shared").get<std::string>());
  text += fmt::format("  evaluation {}, checkpoint {}\n", seconds_or_none(profile.at("evaluate_seconds")),
                      seconds(profile.at("save_seconds")));
  return text;
}

std::string windows_text(const json& profile) {
  std::string text = fmt::format("{:<10}{:>10}{:>8}{:>13}{:>12}{:>12}{:>12}\n", "windows", "samples", "rows", "micro-steps",
                                 "loss", "seconds", "wait");
  for (const json& window : profile.at("windows")) {
    text += fmt::format("  {:<8}{:>10}{:>8}{:>13}{:>12.5f}{:>12}{:>12}\n", window.at("update").get<std::int64_t>(),
                        window.at("samples").get<std::int64_t>(), window.at("rows").get<std::int64_t>(),
                        window.at("micro_steps").get<std::int64_t>(), window.at("loss").get<double>(),
                        seconds(window.at("seconds")), seconds_or_none(window.at("wait_seconds")));
  }
  return text;
}

std::string ops_text(const json& profile) {
  const json& ops = profile.at("ops");
  const double all = profile.at("update_seconds");
  std::string text = fmt::format("{:<36}{:<8}{:>8}{:>12}{:>9}{:>12}{:>12}\n", "kernels by op", "section", "runs", "seconds",
                                 "share", "planned", "bound");
  double rest = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const json& op = ops[i];
    if (i >= kMostRows) {
      rest += op.at("seconds").get<double>();
      continue;
    }
    text += fmt::format("  {:<34}{:<8}{:>8}{:>12}{:>7.1f} %{:>12}{:>12}\n", op.at("op").get<std::string>(),
                        op.at("section").get<std::string>(), runs_text(op.at("runs").get<double>()), seconds(op.at("seconds")),
                        100 * op.at("seconds").get<double>() / all, seconds(op.at("predicted")), seconds(op.at("bound")));
  }
  if (rest > 0) text += fmt::format("  {:<50}{:>12}{:>7.1f} %\n", "others, in --json", seconds(rest), 100 * rest / all);
  return text;
}

// Live bytes over the steps of a phase, in tenths of the arena: the most of each column.
std::string picture(const std::vector<double>& live, double arena) {
  std::string text;
  const std::size_t columns = std::min(kColumns, live.size());
  for (std::size_t column = 0; column < columns; ++column) {
    const auto begin = live.begin() + static_cast<std::ptrdiff_t>(live.size() * column / columns);
    const auto end = live.begin() + static_cast<std::ptrdiff_t>(live.size() * (column + 1) / columns);
    const double share = arena > 0 ? *std::max_element(begin, end) / arena : 0;
    text += static_cast<char>('0' + std::clamp(static_cast<int>(10 * share), 0, 9));
  }
  return text;
}

std::string memory_text(const json& profile) {
  const json& process = profile.at("process");
  const double arena = process.at("arena_bytes");
  std::string text =
      fmt::format("memory    process {} measured, {} planned, budget {}; arena {}\n", size(process.at("measured_bytes")),
                  size(process.at("planned_bytes")), size(process.at("budget_bytes")), size(process.at("arena_bytes")));
  text += "  live bytes over the steps of each phase, in tenths of the arena, and the owners at its peak:\n";
  for (const json& phase : profile.at("timeline")) {
    bool first = true;
    for (const auto& [tier, owners] : phase.at("tiers").items()) {
      std::vector<double> live(phase.at("steps").size(), 0);
      for (const auto& [owner, bytes] : owners.items()) {
        for (std::size_t i = 0; i < live.size(); ++i) live[i] += bytes.at(i).get<double>();
      }
      if (live.empty()) continue;
      const auto peak = std::ranges::max_element(live);
      const std::string name = std::exchange(first, false) ? phase.at("phase").get<std::string>() : "";
      text += fmt::format("  {:<10}{:<8}{:>12}  {}\n", name, tier, size(static_cast<std::int64_t>(*peak)), picture(live, arena));
      std::vector<std::pair<double, std::string>> rows;
      for (const auto& [owner, bytes] : owners.items()) {
        const double at_peak = bytes.at(static_cast<std::size_t>(peak - live.begin()));
        if (at_peak > 0) rows.emplace_back(at_peak, owner);
      }
      std::ranges::sort(rows, std::greater());
      std::string line;
      for (const auto& [bytes, owner] : rows) {
        line += fmt::format("{}{} {}", line.empty() ? "" : ", ", owner, size(static_cast<std::int64_t>(bytes)));
      }
      text += fmt::format("{:22}{}\n", "", line);
    }
  }
  std::string reserve;
  for (const json& item : process.at("reserve")) {
    if (item.at("bytes").get<std::int64_t>() == 0) continue;
    reserve += fmt::format("{}{} {}", reserve.empty() ? "" : ", ", item.at("name").get<std::string>(), size(item.at("bytes")));
  }
  text += "  outside the arena: " + reserve + "\n";
  return text;
}

std::string audit_text(const json& profile) {
  const json& audit = profile.at("audit");
  if (audit.is_null()) return "";
  std::string text = fmt::format("{:<12}{:>16}{:>16}{:>16}{:>16}\n", "audit", "live, planned", "seen", "arena, planned", "seen");
  for (const json& phase : audit) {
    text += fmt::format("  {:<10}{:>16}{:>16}{:>16}{:>16}\n", phase.at("phase").get<std::string>(),
                        size(phase.at("planned_live_bytes")), size(phase.at("live_bytes")), size(phase.at("planned_arena_bytes")),
                        size(phase.at("arena_bytes")));
  }
  return text + "  (the audit slows updates down: its seconds are no measurement)\n";
}

std::string peak_text(const json& profile) {
  const json &peak = profile.at("peak"), &where = profile.at("peak_at");
  std::string text = fmt::format("live at the peak: {} in {}, step {}\n", size(where.at("live_bytes")),
                                 where.at("phase").get<std::string>(), where.at("step").get<int>());
  text += fmt::format("  {:<40}{:>11}{:>13}{:>11}{:>11}  {}\n", "value", "bytes", "steps", "again", "move", "kept as");
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < peak.size(); ++i) {
    const json& value = peak[i];
    if (i >= kMostRows) {
      rest += value.at("bytes").get<std::int64_t>();
      continue;
    }
    std::string name = value.at("value").get<std::string>();
    if (name.size() > 39) name = "..." + name.substr(name.size() - 36);
    text += fmt::format("  {:<40}{:>11}{:>13}{:>11}{:>11}  {}\n", name, size(value.at("bytes")),
                        fmt::format("{}-{}", value.at("born").get<int>(), value.at("dies").get<int>()),
                        seconds_or_none(value.at("recompute_seconds")), seconds_or_none(value.at("move_seconds")),
                        value.at("why").get<std::string>());
  }
  if (rest > 0) text += fmt::format("  {:<40}{:>11}\n", fmt::format("{} others, in --json", peak.size() - kMostRows), size(rest));
  return text;
}

std::string signed_size(double bytes) {
  return (bytes < 0 ? "-" : "+") + to_text(Bytes{static_cast<std::int64_t>(std::abs(bytes))});
}
std::string signed_seconds(double value) { return (value < 0 ? "-" : "+") + seconds(std::abs(value)); }

}  // namespace

std::string profile_text(const json& profile) {
  return fmt::format("verdict   {}: {}\nnext      {}\n\n{}\n{}\n{}\n{}{}\n{}", profile.at("verdict").get<std::string>(),
                     profile.at("why").get<std::string>(), next_text(profile), parts_text(profile), windows_text(profile),
                     ops_text(profile), memory_text(profile), audit_text(profile), peak_text(profile));
}

std::string profile_diff_text(const json& diff) {
  const json &update = diff.at("update_seconds"), &peak = diff.at("peak_bytes");
  std::string text = fmt::format("update    {} -> {}: {}\n", seconds(update.at("a")), seconds(update.at("b")),
                                 signed_seconds(update.at("difference")));
  for (const json& row : diff.at("seconds")) {
    const std::string section = row.at("section").is_null() ? "" : row.at("section").get<std::string>();
    text += fmt::format("  {:<36}{:<8}{:>12}{:>12}{:>13}\n", row.at("what").get<std::string>(), section, seconds(row.at("a")),
                        seconds(row.at("b")), signed_seconds(row.at("difference")));
  }
  text += fmt::format("peak      {} -> {}: {}\n", size(static_cast<std::int64_t>(peak.at("a").get<double>())),
                      size(static_cast<std::int64_t>(peak.at("b").get<double>())), signed_size(peak.at("difference")));
  for (const json& row : diff.at("bytes")) {
    text += fmt::format("  {:<44}{:>12}{:>12}{:>13}\n", row.at("owner").get<std::string>(),
                        size(static_cast<std::int64_t>(row.at("a").get<double>())),
                        size(static_cast<std::int64_t>(row.at("b").get<double>())), signed_size(row.at("difference")));
  }
  return text;
}

}  // namespace plimsoll
