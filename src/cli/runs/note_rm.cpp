#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/shell.h"
#include "cli/commands.h"
#include "cli/runs/run_facts.h"
#include "cli/say.h"
#include "cli/shown_text.h"
#include "records/remove_run.h"
#include "records/run_note.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// The runs beside this one that began with its state.
std::vector<fs::path> forks_of(const fs::path& run) {
  std::error_code error;
  const fs::path whole = fs::canonical(run, error);
  std::vector<fs::path> forks;
  for (const fs::path& other : find_runs(whole.parent_path())) {
    const Run found = read_run(other);
    if (found.parent && fs::weakly_canonical(found.parent->first, error) == whole) forks.push_back(other);
  }
  return forks;
}

std::string shown_path(const fs::path& path) { return shown_text(path.string(), ShownAs::line); }

// Reads the answer; E-USAGE at the end of the input.
bool agrees() {
  say_marked("remove it? [y/N] ");
  std::string answer;
  int c = 0;
  while ((c = std::getchar()) != EOF && c != '\n') answer += static_cast<char>(c);
  if (c == EOF && answer.empty()) {
    throw config_error("E-USAGE", "plimsoll runs rm", "the question has no answer: the input has ended", "y or n, or --yes",
                       {Change("command.yes")});
  }
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

int run_runs_note(const RunsNoteArguments& arguments) {
  open_run_records(arguments.run);
  write_note(arguments.run, arguments.text);
  return 0;
}

int run_runs_remove(const RunsRemoveArguments& arguments) {
  const fs::path folder = arguments.run;
  const Run run = open_run_records(folder);
  if (is_held(folder, run.pid)) {
    throw config_error("E-RUN-BUSY", folder.string(), fmt::format("process {} trains in it", run.pid),
                       "a run that no process trains: end it first");
  }
  const RunRemoval removal = plan_removal(folder);
  say_line(fmt::format("{}: {}, {} updates; {} in {} files", shown_path(folder), run.status, run.updates, to_text(removal.bytes),
                       removal.files.size()));
  for (const fs::path& fork : forks_of(folder))
    say_line(fmt::format("note: {} is a fork of this run; it stays", shown_path(fork)));
  for (const fs::path& other : removal.foreign) say_line(fmt::format("note: {} is not of the run; it stays", shown_path(other)));
  if (!arguments.yes && !agrees()) {
    say_line("nothing was removed");
    return 0;
  }
  remove_run(folder);
  say_line(fmt::format("removed {}", shown_path(folder)));
  return 0;
}

}  // namespace plimsoll
