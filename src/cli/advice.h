// Commands that errors advise, made ready to be copied: with the configuration and the options of the command that failed.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/commands.h"

namespace plimsoll {

// CONFIG, --device, --set and the budgets as words of a shell.
std::string config_words(const ConfigArguments& config);

// Of a command that begins with "plimsoll", CONFIG becomes the file and the options that the command advised takes. With --resume
// it becomes the file alone: a run keeps its settings.
void complete_advice(Error& error, const ConfigArguments& config);

// The same of DIR, the folder of the run.
void name_run(Error& error, std::string_view run);

// For commands that read no training data: settings of it are no advice there.
void drop_data_advice(Error& error);

}  // namespace plimsoll
