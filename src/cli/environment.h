// The only place that reads and sets environment variables. Libraries read theirs when they are loaded, so the program sets them
// and starts itself again.
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll {

// Opens descriptors 0 to 2 if the caller closed them. Otherwise the next opened file would take their place, and diagnostics
// would be written into it. Output to a closed stdout still fails.
void hold_standard_streams();

// Sets passive waiting between parallel regions (active waiting costs a scheduler quantum per region if another process runs), no
// dynamic teams and small stacks. Returns in the process that has these settings.
void prepare_environment(char** argv);

// PLIMSOLL_MAX_ISA: kernels use at most "avx2" or "sse4". Called before the first kernel.
void limit_kernels();

// $XDG_CACHE_HOME/plimsoll, else ~/.cache/plimsoll, else plimsoll-cache in the temporary folder. If another user owns that folder
// or may write into it, a note says so once, and the folder is one that is removed with this process.
std::filesystem::path cache_folder();

// A variable of the environment; empty if it is not set.
std::string environment_variable(const char* name);

// True if stderr is a terminal and the user has not asked for plain text.
bool live_terminal();
bool colour_allowed();
bool output_is_terminal();
// The same for stdout.
bool colour_allowed_in_output();
// Columns of the terminal of stderr, and of stdout; 80 if they are unknown.
int terminal_columns();
int output_columns();

}  // namespace plimsoll
