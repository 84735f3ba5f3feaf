#include "cli/spelling.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/shell.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::string_view kOfCommand = "command.";  // inputs of commands

// Keys with an option of their own.
constexpr struct {
  std::string_view key, option;
} kOptions[] = {{"memory.budget", "--memory"},
                {"memory.host_memory", "--host-memory"},
                {"memory.disk", "--disk"},
                {"machine.device", "--device"},
                {"machine.unverified", "--unverified"}};

int ranks = 1;

void spell_row(json& row) {
  json arguments = json::array();
  for (const json& change : row.at("changes")) {
    for (std::string& word : arguments_of({change.at(0).get<std::string>(), change.at(1).get<std::string>()})) {
      arguments.push_back(std::move(word));
    }
  }
  row.erase("changes");
  row["arguments"] = std::move(arguments);
}

}  // namespace

std::vector<std::string> arguments_of(const Change& change) {
  const std::string &key = change.key, &value = change.value;
  const auto own = std::ranges::find(kOptions, key, [](const auto& each) { return each.key; });
  if (key.empty()) return {"--set", value};
  if (change.option.empty()) {
    if (key == "machine.unverified" && value == "true") return {"--unverified"};
    if (own != std::end(kOptions) && !value.empty() && key != "machine.unverified") return {std::string(own->option), value};
  }
  if (!key.starts_with(kOfCommand)) return {"--set", key + "=" + value};
  const std::string option = "--" + key.substr(kOfCommand.size());
  return value.empty() ? std::vector{option} : std::vector{option, value};
}

void spell_for_ranks(int count) { ranks = count; }

std::string option_of(const Change& change) { return arguments_of(change).front(); }

std::string words_of(std::span<const Change> changes) {
  std::string text;
  for (const Change& change : changes) {
    for (const std::string& word : arguments_of(change)) text += " " + shell_quoted(word);
  }
  return text;
}

std::string text_of(const Remedy& remedy) {
  if (!remedy.words.empty()) return remedy.words;
  const std::string words = words_of(remedy.changes);
  const bool together = ranks > 1 && remedy.command.starts_with("train");
  const std::string program = together ? fmt::format("plimsoll launch -n {} ", ranks) : "plimsoll ";
  const std::string text = remedy.command.empty() ? words.substr(1) : program + remedy.command + words;
  return remedy.note.empty() ? text : text + "  # " + remedy.note;
}

void spell_changes(json& plan) {
  for (json& lever : plan.at("levers")) spell_row(lever);
  if (json& infeasible = plan.at("infeasible"); !infeasible.is_null()) {
    for (json& remedy : infeasible.at("remedies")) spell_row(remedy);
  }
  if (const auto solve = plan.find("solve"); solve != plan.end()) spell_row(*solve);
}

}  // namespace plimsoll
