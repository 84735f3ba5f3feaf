// Advice of errors, completed with the configuration and the options of the failed command, so that it can be copied.
#pragma once

#include <string_view>

#include "base/error.h"
#include "cli/commands.h"

namespace plimsoll {

// In a command with CONFIG, CONFIG becomes the file and the options that the command takes. A command that resumes gets the file
// alone, as a run keeps its settings.
void complete_advice(Error& error, const ConfigArguments& config);

// DIR, the folder of the run, becomes its path.
void name_run(Error& error, std::string_view run);

// Drops advice on settings of the data, for commands that read no training data.
void drop_data_advice(Error& error);

}  // namespace plimsoll
