#include "cli/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {
namespace {

using nlohmann::json;

std::string size(const json& bytes) { return bytes.is_null() ? "-" : to_text(Bytes{bytes.get<std::int64_t>()}); }

std::string blocks_text(const json& decisions) {
  std::map<std::string, int> count;
  for (const json& block : decisions.at("recompute")) ++count[block.at("mode").get<std::string>()];
  std::string text;
  for (const char* mode : {"keep", "cheap", "recompute"}) {
    if (count[mode] > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count[mode], mode);
  }
  return text.empty() ? "no repeated blocks" : text;
}

std::string batch_text(const json& plan) {
  const json& batch = plan.at("batch");
  return fmt::format("{} = {} x {}", batch.at("effective").get<std::int64_t>(), batch.at("micro").get<std::int64_t>(),
                     batch.at("accumulation").get<std::int64_t>());
}

// Owners as rows, phases as columns, at each phase's peak.
std::string phase_table(const json& predicted) {
  std::vector<std::string> owners;
  for (const json& phase : predicted.at("phases")) {
    for (const auto& [owner, bytes] : phase.at("owners").items()) {
      if (std::find(owners.begin(), owners.end(), owner) == owners.end()) owners.push_back(owner);
    }
  }
  std::string text = fmt::format("{:<24}", "at its peak");
  for (const json& phase : predicted.at("phases")) text += fmt::format("{:>12}", phase.at("name").get<std::string>());
  text += "\n";
  const auto row = [&](const std::string& title, auto&& cell) {
    text += fmt::format("{:<24}", title);
    for (const json& phase : predicted.at("phases")) text += fmt::format("{:>12}", cell(phase));
    text += "\n";
  };
  for (const std::string& owner : owners) {
    row(owner, [&](const json& phase) {
      const auto found = phase.at("owners").find(owner);
      return found == phase.at("owners").end() ? std::string() : size(*found);
    });
  }
  row("live", [&](const json& phase) { return size(phase.at("live_bytes")); });
  row("arena", [&](const json& phase) { return size(phase.at("arena_bytes")); });
  return text;
}

std::string changes_table(const json& rows, const char* title, double base_seconds) {
  std::string text = fmt::format("{:<52}{:>12}{:>9}\n", title, "process", "time");
  for (const json& row : rows) {
    const double seconds = row.at("update_seconds").get<double>();
    const std::string name = row.contains("name") ? row.at("name").get<std::string>() : row.at("text").get<std::string>();
    text += fmt::format("  {:<50}{:>12}", name, size(row.at("process_bytes")));
    text += base_seconds > 0 ? fmt::format("{:>+8.1f}%", 100 * (seconds / base_seconds - 1)) : fmt::format("{:>8.3g}s", seconds);
    text += row.at("changes_result").get<bool>() ? "  changes the result\n" : "\n";
    std::string arguments;
    for (const json& argument : row.at("arguments")) arguments += " " + argument.get<std::string>();
    if (!arguments.empty()) text += fmt::format("      {}\n", arguments);
  }
  return text;
}

std::string fitting(const json& plan) {
  const json &predicted = plan.at("predicted"), &bounds = plan.at("bounds");
  std::string text = fmt::format("fits: {} of {}   (plan {})\n", size(predicted.at("process_bytes")), size(plan.at("budget").at("memory")),
                                 plan.at("plan_hash").get<std::string>().substr(0, 12));
  text += fmt::format("batch {}   blocks: {}   loss in {} chunk(s)   {}, {} threads\n", batch_text(plan), blocks_text(plan.at("decisions")),
                      plan.at("decisions").at("loss_chunks").get<int>(), plan.at("precision").at("compute").get<std::string>(),
                      plan.at("threads").get<int>());
  const json& source = predicted.at("cost_source");
  text += fmt::format("update {:.3f} s, {:.0f} units/s ({})\n\n", predicted.at("update_seconds").get<double>(),
                      predicted.at("tokens_per_second").get<double>(),
                      source.at("bound").get<int>() > 0 ? "a bound from measured rates; `plimsoll machine CONFIG` measures the kernels"
                                                         : "from measured kernels");
  text += phase_table(predicted) + "\n";
  text += fmt::format("{:<44}{:>12}\n", "process", size(predicted.at("process_bytes")));
  text += fmt::format("  {:<42}{:>12}\n", "arena", size(predicted.at("arena_bytes")));
  for (const json& item : predicted.at("reserve")) {
    text += fmt::format("  {:<42}{:>12}  {}\n", item.at("name").get<std::string>(), size(item.at("bytes")),
                        item.at("source").get<std::string>());
  }
  text += fmt::format("\nno plan can be smaller than {}; the smallest found {}; knee {}; ceiling {}\n", size(bounds.at("floor_bound_bytes")),
                      size(bounds.at("floor_bytes")), size(bounds.at("knee_bytes")), size(bounds.at("ceiling_bytes")));
  if (!plan.at("levers").empty()) {
    text += "\n" + changes_table(plan.at("levers"), "levers, each alone", plan.at("levers").at(0).at("update_seconds").get<double>());
  }
  return text;
}

std::string refusing(const json& plan) {
  const json& infeasible = plan.at("infeasible");
  std::string text = fmt::format("E-PLAN-FIT  does not fit: needs {}, budget {} (short by {})\n", size(plan.at("bounds").at("floor_bytes")),
                                 size(plan.at("budget").at("memory")), size(infeasible.at("short_bytes")));
  text += fmt::format("no plan can be smaller than {}\n", size(plan.at("bounds").at("floor_bound_bytes")));
  text += fmt::format("peak in phase '{}'; owners there:\n", infeasible.at("phase").get<std::string>());
  for (const json& owner : infeasible.at("owners")) {
    text += fmt::format("  {:<26}{:>12}  {}\n", owner.at("name").get<std::string>(), size(owner.at("bytes")),
                        owner.at("model_line").is_null() ? "" : owner.at("model_line").get<std::string>());
  }
  if (!infeasible.at("remedies").empty()) text += changes_table(infeasible.at("remedies"), "what fits, each planned", 0);
  return text;
}

}  // namespace

std::string plan_text(const json& plan) { return plan.at("status") == "fits" ? fitting(plan) : refusing(plan); }

std::string plan_summary(const json& plan) {
  const json& predicted = plan.at("predicted");
  return fmt::format("plan: {} of {}; batch {}; blocks: {}; loss in {} chunk(s)\n      floor {}, knee {}, ceiling {}\n",
                     size(predicted.at("process_bytes")), size(plan.at("budget").at("memory")), batch_text(plan),
                     blocks_text(plan.at("decisions")), plan.at("decisions").at("loss_chunks").get<int>(),
                     size(plan.at("bounds").at("floor_bytes")), size(plan.at("bounds").at("knee_bytes")),
                     size(plan.at("bounds").at("ceiling_bytes")));
}

}  // namespace plimsoll
