#include "cli/init.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/memory_limit.h"
#include "base/shell.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/patience.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "cli/spelling.h"
#include "config/config_rules.h"
#include "models/all.h"
#include "session/probe.h"

namespace plimsoll {
namespace {

// Paths stay relative, for a file next to its data.
Config starting_point(std::string_view preset) {
  Config config;
  config.model.preset = preset;
  config.model.config = model_preset(preset);
  const ModelFacts facts = facts_of(config.model.config);
  config.model.context = facts.positions;
  const bool bytes = facts.bytes;
  config.data.train = std::filesystem::path(bytes ? "train.txt" : "train.bin");
  config.data.validation = std::filesystem::path(bytes ? "" : "validation.bin");
  config.train.effective_batch = 32;
  config.train.updates = 1000;
  config.optimizer.learning_rate = bytes ? 1e-3 : 3e-4;
  config.optimizer.weight_decay = 0.1;
  config.schedule.kind = ScheduleKind::cosine;
  config.schedule.warmup = {50, ClockUnit::updates};
  config.schedule.final_fraction = 0.1;
  config.memory.budget = kGiB * (bytes ? 1 : 8);
  return config;
}

// True for a key whose value follows from the preset. Such keys are shown as comments.
bool answered_by_preset(std::string_view key) {
  return section_of(key) == "model" && key != "model.preset" && key != "model.init";
}

std::string value_of(const ConfigKey& key, const Config& config) {
  if (key.name == "memory.budget") return fmt::format("\"{}GiB\"", config.memory.budget->n / kGiB.n);
  return text_of(key, config);
}

// True for a key of another schedule, optimizer or precision, and for an alternative to another key.
bool of_another_choice(std::string_view key, const Config& config) {
  return !schedule_has(config.schedule.kind, key) || key == "optimizer.half_lives" || key == "data.template" ||
         key == "data.labels" || key == "data.validation_labels" || key.starts_with("image.") || key.starts_with("norm.") ||
         key == "precision.allow" || key.starts_with("precision.loss_scale") || key.starts_with("adapter.");
}

std::string line_of(const ConfigKey& key, const Config& config) {
  const std::string value = value_of(key, config);
  const bool absent = value.empty() || answered_by_preset(key.name);
  const bool of_another_kind = value.empty() && answered_by_preset(key.name);  // a key of another kind of model
  const std::string_view sign = of_another_kind || of_another_choice(key.name, config) ? "## " : absent ? "# " : "";
  const std::string setting = fmt::format("{}{} = {}", sign, leaf_of(key.name), value.empty() ? std::string(key.example) : value);
  return fmt::format("{:<32} # {}\n", setting, key.comment);
}

bool is_control(char letter) { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f; }

// The command line without control characters, which a comment cannot hold.
std::string typed(const InitArguments& arguments, const std::string& model) {
  std::string command = "plimsoll init " + shell_quoted(model);
  for (const std::string& data : arguments.data) command += " " + shell_quoted(data);
  command += words_of(arguments.changes) + words_of(arguments.budgets);
  std::ranges::replace_if(command, is_control, '?');
  return command;
}

void print(const InitArguments& arguments, const std::string& text) {
  if (arguments.json) {
    print_json(nlohmann::json{{"schema", "plimsoll.init/1"}, {"text", text}});
  } else {
    print_document(text);
  }
}

void check_preset_alone(const InitArguments& arguments) {
  if (!arguments.changes.empty() || !arguments.budgets.empty()) {
    throw config_error("E-USAGE", "init", "budgets and --set are for a model and data of your own", "plimsoll init FOLDER DATA",
                       {"plimsoll init FOLDER DATA --memory 2GiB"});
  }
  if (std::filesystem::exists(arguments.what)) {
    throw config_error("E-USAGE", "init", fmt::format("{} is a folder or a file, and no data are given", arguments.what),
                       "a preset, or a model and its training data",
                       {fmt::format("plimsoll init {} chats.jsonl", shell_quoted(arguments.what))});
  }
}

// The error for a missing folder, which may be meant as a preset or as the name of a model on a hub.
void check_model(const InitArguments& arguments) {
  if (std::filesystem::exists(arguments.what)) return;
  throw data_error("E-IO-MISSING", arguments.what, "there is no such folder or file",
                   "a Hugging Face folder or a GGUF file; presets have no data",
                   {"plimsoll init gpt2  # a preset, without data"});
}

}  // namespace

std::string init_text(std::string_view preset) {
  const Config config = starting_point(preset);
  std::string text =
      "# A configuration of Plimsoll. Change what you like, then:\n"
      "#   plimsoll plan  run.toml          the plan within memory.budget, and its speed\n"
      "#   plimsoll train run.toml --run run\n"
      "# A line with one # shows a default. A line with ## is an example for an adapter, or for another kind of model, "
      "optimizer, schedule or precision.\n"
      "# Remove the # to use it. Paths are relative to this file.\n";
  if (!facts_of(config.model.config).bytes) {
    text += "# To fine-tune instead of starting from random weights, set init to a Hugging Face folder and remove preset.\n";
  }
  text += "\n";
  std::string_view section;
  for (const ConfigKey& key : config_keys()) {
    if (section_of(key.name) != section) text += fmt::format("\n[{}]\n", section = section_of(key.name));
    text += line_of(key, config);
  }
  return text;
}

std::string init_text(const StartingPoint& start, std::string_view command) {
  std::string text = fmt::format("# Written by `{}`. Change what you like, then:\n", command);
  if (start.chat)
    text += "#   plimsoll data show run.toml        samples as the model sees them, with the trained tokens marked\n";
  text += fmt::format(
      "#   plimsoll plan  run.toml            the owners of the memory, and the time of an update\n"
      "#   plimsoll train run.toml --run run\n"
      "# Model: {}\n# Data: {}\n# Memory: {}\n\n",
      start.model, start.data, start.memory);
  std::string_view section;
  for (const StartingKey& key : start.keys) {
    if (section_of(key.name) != section) text += fmt::format("\n[{}]\n", section = section_of(key.name));
    const std::string setting = fmt::format("{} = {}", leaf_of(key.name), key.value);
    text += key.remark.empty() ? setting + "\n" : fmt::format("{:<32} # {}\n", setting, key.remark);
  }
  return text;
}

int run_init(const InitArguments& arguments) {
  if (arguments.data.empty()) {
    check_preset_alone(arguments);
    print(arguments, arguments.what.empty() ? init_text() : init_text(arguments.what));
    return 0;
  }
  check_model(arguments);
  const StartingRequest request{.model = arguments.what,
                                .data = std::vector<std::filesystem::path>(arguments.data.begin(), arguments.data.end()),
                                .typed = typed_settings_of(arguments.changes),
                                .budgets = typed_settings_of(arguments.budgets),
                                .cache = cache_folder(),
                                .probe = probe_shape};
  end_on_interrupt(arguments.json);
  std::optional<Patience> patience(std::in_place, "looking at model and data");
  try {
    const MemoryLimit limit(load_budgets(arguments.budgets, "init").budget);
    const StartingPoint start = starting_point(request, [](const std::string& line) { say_line(line); });
    patience.reset();
    print(arguments, init_text(start, typed(arguments, arguments.what)));
  } catch (Error& error) {
    if (error.code == "E-ADAPTER-FOLDER") error.remedies = {typed(arguments, "BASE") + "  # BASE: the model of the adapter"};
    throw;
  }
  return 0;
}

}  // namespace plimsoll
