#include "cli/run_commands.h"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "base/child.h"
#include "base/error.h"
#include "base/shell.h"
#include "formats/chat_template.h"
#include "formats/weights_folder.h"
#include "models/family.h"
#include "prepare/data_files.h"

namespace plimsoll {

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

Remedy RunCommands::resume() const {
  Changes changes{{"command.run", folder_.path().string()}, {"command.resume"}};
  if (arguments_.updates) changes.emplace_back("command.updates", *arguments_.updates);
  if (!arguments_.plan.empty()) changes.emplace_back("command.plan", arguments_.plan);
  if (arguments_.audit) changes.emplace_back("command.audit");
  const std::string& file = arguments_.config.file;
  return Remedy::of_command("train" + (file.empty() ? "" : " " + shell_quoted(file)), std::move(changes));
}

// Weights without a vocabulary can be evaluated, but cannot generate text.
std::string RunCommands::use() const {
  const std::filesystem::path opened = weights_folder(folder_.path());  // the best ones, if there are any
  const std::string weights = shell_quoted((opened == folder_.best() ? folder_.path() : folder_.weights()).string());
  if (data_kind(config_).renders && has_template(folder_.weights())) return "plimsoll generate --weights " + weights + " --chat";
  if (facts_of(config_.model.config).bytes || !config_.data.vocabulary.empty()) {
    return fmt::format("plimsoll generate --weights {} --prompt \"...\"", weights);
  }
  return fmt::format("plimsoll eval {} --weights {}", shell_quoted((folder_.path() / "config.resolved.toml").string()), weights);
}

}  // namespace plimsoll
