#include "cli/plan/phase_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {
namespace {

using nlohmann::json;

std::string size(const json& bytes) { return to_text(Bytes{bytes.get<std::int64_t>()}); }

std::int64_t arena_of(const json& phase) { return phase.at("arena_bytes").get<std::int64_t>(); }

// True for a pass of a training that answers prompts.
bool answers(const json& phases, const json& phase) {
  const auto named = [](const char* name) { return [name](const json& each) { return each.at("name") == name; }; };
  return std::ranges::any_of(phases, named("steady")) && (phase.at("name") == "extend" || phase.at("name") == "decode");
}

std::vector<const json*> shown_phases(const json& phases) {
  std::vector<const json*> shown;
  const json *highest = nullptr, *answering = nullptr;
  for (const json& phase : phases) {
    const bool one = answers(phases, phase);
    const json*& most = one ? answering : highest;
    if (most == nullptr || arena_of(phase) > arena_of(*most)) most = &phase;
    if (!one) shown.push_back(&phase);
  }
  if (answering != nullptr && arena_of(*answering) > arena_of(*highest)) shown.back() = answering;
  return shown;
}

}  // namespace

std::string phase_table(const json& predicted) {
  constexpr int kTitle = 24, kCell = 11;
  const std::vector<const json*> phases = shown_phases(predicted.at("phases"));
  std::vector<std::string> owners;
  for (const json* phase : phases) {
    for (const auto& [owner, bytes] : phase->at("owners").items()) {
      if (std::find(owners.begin(), owners.end(), owner) == owners.end()) owners.push_back(owner);
    }
  }
  std::string text;
  const auto row = [&](const std::string& title, auto&& cell) {
    std::string line = fmt::format("{:<{}}", title, kTitle);
    for (const json* phase : phases) line += fmt::format("{:>{}}", cell(*phase), kCell);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  row("at its peak", [](const json& phase) { return phase.at("name").get<std::string>(); });
  for (const std::string& owner : owners) {
    row(owner, [&](const json& phase) {
      const auto found = phase.at("owners").find(owner);
      return found == phase.at("owners").end() ? std::string() : size(*found);
    });
  }
  row("live", [](const json& phase) { return size(phase.at("live_bytes")); });
  row("arena", [](const json& phase) { return size(phase.at("arena_bytes")); });
  return text;
}

std::string samples_text(const json& plan) {
  if (!plan.contains("samples")) return "";
  const json& samples = plan.at("samples");
  if (!samples.at("left_out").is_null()) {
    return fmt::format("no answers at evaluations (train.show_samples): {}\n", samples.at("left_out").get<std::string>());
  }
  std::int64_t arena = 0;
  const json& phases = plan.at("predicted").at("phases");
  for (const json& phase : phases) {
    if (answers(phases, phase)) arena = std::max(arena, arena_of(phase));
  }
  const auto count = samples.at("prompts").get<std::int64_t>();
  return fmt::format("each evaluation answers {} held-out prompt{} with up to {} tokens; arena {}, {} of it cache\n", count,
                     count == 1 ? "" : "s", samples.at("tokens").get<int>(), to_text(Bytes{arena}),
                     size(samples.at("cache_bytes")));
}

}  // namespace plimsoll
