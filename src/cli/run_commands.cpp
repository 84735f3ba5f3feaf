#include "cli/run_commands.h"

#include <fmt/core.h>

#include <system_error>
#include <vector>

#include "base/child.h"
#include "base/error.h"
#include "base/shell.h"
#include "cli/spelling.h"
#include "config/config_keys.h"
#include "config/config_rules.h"
#include "formats/chat_template.h"
#include "formats/new_folder.h"
#include "formats/weight_files.h"
#include "models/family.h"

namespace plimsoll {

std::string RunCommands::resume() const {
  std::vector<Change> changes{{"command.run", folder_.path().string()}, {"command.resume"}};
  if (arguments_.updates) changes.emplace_back("command.updates", *arguments_.updates);
  if (!arguments_.plan.empty()) changes.emplace_back("command.plan", arguments_.plan);
  if (arguments_.audit) changes.emplace_back("command.audit");
  const std::string& file = arguments_.config.file;
  return "plimsoll train" + (file.empty() ? "" : " " + shell_quoted(file)) + words_of(changes);
}

std::string RunCommands::begin(const std::filesystem::path& run) const {
  return "plimsoll train " + shell_quoted((folder_.path() / "config.resolved.toml").string()) +
         words_of(std::vector<Change>{{"command.run", run.string()}});
}

std::string RunCommands::begin_beside(std::span<const Change> changes) const {
  return begin(new_folder_beside(folder_.path())) + words_of(changes);
}

std::string RunCommands::again() const { return folder_.has_updates() ? begin_beside({}) : begin(folder_.path()); }

std::string RunCommands::other_data() const {
  const std::vector<std::filesystem::path>& names = config_.data.train.names;
  const std::string data = names.size() == 1 ? names.front().string() : config_key("data.train").text(config_);
  std::vector<Change> changes{{"data.train", data}};
  if (has_weights(folder_.weights())) changes.emplace_back("model.init", std::filesystem::absolute(folder_.weights()).string());
  return begin_beside(changes);
}

std::string RunCommands::go_on() const { return resume() + words_of(std::vector<Change>{{"train.on_divergence", "continue"}}); }

std::string RunCommands::slower(bool good) const {
  const double tried = config_.optimizer.learning_rate, usual = usual_learning_rate(config_.optimizer.kind);
  const Change rate("optimizer.learning_rate", fmt::format("{:g}", tried > 1000 * usual ? usual : tried / 10));
  return good ? resume() + words_of({&rate, 1}) : begin_beside({&rate, 1});
}

namespace {

// Read in a child process, as the plan accounts for all memory of the run.
bool has_template(const std::filesystem::path& weights) {
  try {
    return !run_in_child([&] { return std::string(load_chat_templates(weights) ? "yes" : ""); }).empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

// Weights without a vocabulary can be evaluated, but cannot generate text.
std::string RunCommands::use() const {
  const std::string weights = shell_quoted(folder_.weights().string());
  if (config_.data.format == "chat" && has_template(folder_.weights()))
    return "plimsoll generate --weights " + weights + " --chat";
  if (facts_of(config_.model.config).bytes || !config_.data.vocabulary.empty()) {
    return fmt::format("plimsoll generate --weights {} --prompt \"...\"", weights);
  }
  return fmt::format("plimsoll eval {} --weights {}", shell_quoted((folder_.path() / "config.resolved.toml").string()), weights);
}

}  // namespace plimsoll
