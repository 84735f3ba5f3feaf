// The words that each command takes. Each function adds those of one command and the rules between them; parsing fills the
// arguments. --audit and --json, which several commands have, come from main. runs/options.h has those of `plimsoll runs`.
#pragma once

#include "cli/commands.h"

namespace CLI {
class App;
}

namespace plimsoll {

void plan_options(CLI::App& command, PlanArguments& a);
void train_options(CLI::App& command, TrainArguments& a);
void profile_options(CLI::App& command, ProfileArguments& a);
void launch_options(CLI::App& command, LaunchArguments& a);
void verify_options(CLI::App& command, VerifyArguments& a);
void tokenize_options(CLI::App& command, TokenizeArguments& a);
void merge_options(CLI::App& command, MergeArguments& a);
void export_options(CLI::App& command, ExportArguments& a);
void report_options(CLI::App& command, ReportArguments& a);
void watch_options(CLI::App& command, WatchArguments& a);
void data_show_options(CLI::App& command, DataShowArguments& a);
void eval_options(CLI::App& command, EvalArguments& a);
void generate_options(CLI::App& command, GenerateArguments& a);
void forward_options(CLI::App& command, ForwardArguments& a);
void layout_options(CLI::App& command, LayoutArguments& a);
void recompute_options(CLI::App& command, RecomputeArguments& a);
void machine_options(CLI::App& command, MachineArguments& a);
void init_options(CLI::App& command, InitArguments& a);
void explain_options(CLI::App& command, ExplainArguments& a);

}  // namespace plimsoll
