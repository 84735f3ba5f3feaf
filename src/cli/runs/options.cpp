#include "cli/runs/options.h"

#include <CLI/CLI.hpp>

namespace plimsoll {

void list_options(CLI::App& command, RunsListArguments& a) {
  command.add_option("FOLDER", a.folders, "folders with runs up to three levels down (default: this one)");
  command
      .add_option("--where", a.where, "only runs with this fact or setting: state=done, optimizer.name=adamw; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--sort", a.sort, "by a fact or setting; --sort=-KEY: the largest first");
}

void show_options(CLI::App& command, RunsShowArguments& a) {
  command.add_option("RUN", a.run, "the folder of a run")->required();
}

void compare_options(CLI::App& command, RunsCompareArguments& a) {
  command.add_option("RUN", a.runs, "the folders of two runs or more")->required()->expected(2, 1000);
}

void note_options(CLI::App& command, RunsNoteArguments& a) {
  command.add_option("RUN", a.run, "the folder of a run")->required();
  command.add_option("TEXT", a.text, "the note, in the place of an earlier one; \"\" removes it")->required();
}

void remove_options(CLI::App& command, RunsRemoveArguments& a) {
  command.add_option("RUN", a.run, "the folder of a run")->required();
  command.add_flag("--yes", a.yes, "without a question");
}

}  // namespace plimsoll
