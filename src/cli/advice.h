// Advice of errors, completed with the configuration and the options of the failed command, so that it can be copied.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/commands.h"

namespace plimsoll {

// The configuration and its options as words of the shell.
std::string config_words(const ConfigArguments& config);

// Of a command with CONFIG, CONFIG becomes the file and those options that the command takes. A command that resumes gets the
// file alone: a run keeps its settings.
void complete_advice(Error& error, const ConfigArguments& config);

// DIR, the folder of the run, becomes its path.
void name_run(Error& error, std::string_view run);

// For commands that read no training data: their settings are no advice there.
void drop_data_advice(Error& error);

}  // namespace plimsoll
