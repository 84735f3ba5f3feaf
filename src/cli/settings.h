// The configuration of a command line: its file and its changes. Notes go to stderr. The folder of a disk budget is created for
// commands that run a plan.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "config/config.h"
#include "config/run_settings.h"

namespace plimsoll {

// E-DISK-FOLDER (exit 5) if the folder of the disk budget neither exists nor can be created.
Config load_settings(const ConfigArguments& arguments, const Bf16Speed& bf16 = bf16_speed_here());
// The same for commands that run nothing: the folder is not created. Keeps the typed settings that are in force.
Config read_settings_only(RunSettings& settings, const Bf16Speed& bf16 = bf16_speed_here());

// The settings of a command line, and the configuration of settings; the folder of a disk budget is created.
RunSettings read_settings_of(const ConfigArguments& arguments);
Config load_settings(RunSettings& settings);

// Adds as changes what follows from the data: the number of updates if train.epochs gives the length of a run, and the classes of
// a new head. Opens the data in a child process. If data are missing, a note says so, and nothing is added.
ConfigArguments with_data(ConfigArguments arguments);
// The same number for a configuration that has been read.
std::optional<Change> length_of_epochs(const Config& config);

// The changes as settings, with their options as places.
std::vector<Setting> typed_settings_of(const Changes& changes);
// True if a key is among them by its own name.
bool is_typed(const Changes& changes, std::string_view key);

// Prints the notes of a loaded configuration, and creates the folder of its disk budget.
void settle(const Config& config);

// Called before a GPU is used: E-CUDA-UNVERIFIED (exit 2) if an op of the model has not passed its tests on a GPU, unless the
// user has agreed to that.
void demand_verified(const Config& config);

// True if a command line without a configuration asks for a GPU. E-CUDA-UNVERIFIED as above.
bool wants_gpu(const ConfigArguments& arguments);

// For commands without a configuration: the budgets, quantize.base, or both. E-USAGE for any other key.
MemorySettings load_budgets(const Changes& changes, std::string_view command);
BaseFormat load_base_format(const Changes& changes, std::string_view command);
struct InferenceSettings {
  MemorySettings memory;
  BaseFormat base = BaseFormat::none;
};
InferenceSettings load_inference_settings(const Changes& changes, std::string_view command);

}  // namespace plimsoll
