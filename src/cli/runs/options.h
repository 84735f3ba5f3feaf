// The options of `plimsoll runs`.
#pragma once

#include "cli/commands.h"

namespace CLI {
class App;
}

namespace plimsoll {

void list_options(CLI::App& command, RunsListArguments& a);
void show_options(CLI::App& command, RunsShowArguments& a);
void compare_options(CLI::App& command, RunsCompareArguments& a);
void note_options(CLI::App& command, RunsNoteArguments& a);
void remove_options(CLI::App& command, RunsRemoveArguments& a);

}  // namespace plimsoll
