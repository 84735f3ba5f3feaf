// The configuration as a command line means it: the file, --set and the budgets, its notes on stderr, the folder of --disk made
// where something runs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "config/config.h"
#include "config/run_settings.h"

namespace plimsoll {

// E-DISK-FOLDER (exit 5) where the folder of the disk budget neither exists nor can be created.
Config load_settings(const ConfigArguments& arguments, const Bf16Speed& bf16 = bf16_speed_here());
// The same for commands that run nothing: the folder is not made. Leaves those of the typed settings that are in force.
Config read_settings_only(RunSettings& settings, const Bf16Speed& bf16 = bf16_speed_here());

// The settings alone, and then what follows from them, as above.
RunSettings read_settings_of(const ConfigArguments& arguments);
Config load_settings(RunSettings& settings);

// Where train.epochs says how long a run is: with the number of updates that this comes to as a further --set. Opens the data in
// a child. Where they are not there, it is told, and nothing is added.
ConfigArguments with_length(ConfigArguments arguments);
// The same of a configuration that has been read.
std::optional<std::string> length_of_epochs(const Config& config);

// --set and what else stands for a key.
std::vector<std::string> sets_of(const ConfigArguments& arguments);
BudgetOptions budgets_of(const ConfigArguments& arguments);

// Tells the notes of a configuration that was loaded, and makes the folder of its disk budget.
void settle(const Config& config);

// Before a GPU is used: E-CUDA-UNVERIFIED (exit 2) where the user has not agreed to one that nothing is proved on.
void demand_verified(const Config& config);

// The same of what --device says where there is no configuration.
bool wants_gpu(const ConfigArguments& arguments);

// The budgets alone, for commands without a configuration.
MemorySettings load_budgets(const BudgetArguments& budgets);
// quantize.base in the --set of a command without a configuration: E-USAGE for any other key.
BaseFormat base_format(const std::vector<std::string>& sets, std::string_view command);
// E-USAGE where --threads of a command without a configuration is no number of threads; 0 is all cores.
void check_threads(int threads);

}  // namespace plimsoll
