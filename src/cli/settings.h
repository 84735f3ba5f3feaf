// The configuration as a command line means it: the file, --set and the budgets, its notes on stderr, the folder of --disk made
// where something runs.
#pragma once

#include "cli/commands.h"
#include "train/config.h"

namespace plimsoll {

// E-DISK-FOLDER (exit 5) where the folder of the disk budget neither exists nor can be created.
Config load_settings(const ConfigArguments& arguments, const Bf16Speed& bf16 = bf16_speed_here());
// The same for commands that run nothing: the folder is not made.
Config read_settings_only(const ConfigArguments& arguments, const Bf16Speed& bf16 = bf16_speed_here());

// Before a GPU is used: E-CUDA-UNVERIFIED (exit 2) where the user has not agreed to one that nothing is proved on.
void demand_verified(const Config& config);

// The same of what --device says where there is no configuration.
bool wants_gpu(const ConfigArguments& arguments);

// The budgets alone, for commands without a configuration.
MemorySettings load_budgets(const BudgetArguments& budgets);

}  // namespace plimsoll
