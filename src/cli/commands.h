// The commands, one function each. They write results to stdout and everything else to stderr, return the exit code of success
// and throw Error for failure; main prints it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/remedy.h"

namespace plimsoll {

// CONFIG, and the settings of --set, of the budgets and of the device.
struct ConfigArguments {
  std::string file;
  Changes changes;
};

struct PlanArguments {
  ConfigArguments config;
  std::string machine, out, svg, instance, solve;
  std::vector<std::string> at;    // budgets that the frontier shows
  std::vector<std::string> diff;  // two plan files to compare; nothing is planned
  int ranks = 1, rank = -1;       // processes that train together, and the one to show; -1: the fullest
  bool values = false, frontier = false, json = false;
};
int run_plan(const PlanArguments& arguments);

struct TrainArguments {
  ConfigArguments config;
  std::string run, plan;
  std::optional<std::int64_t> updates;
  std::string fault;       // train/faults.h
  std::string from;        // a run, or one of its checkpoints
  std::string checkpoint;  // with --resume: an update, "best" or "last"
  std::string log_format;  // "text" or "json"
  bool resume = false, force = false, audit = false, json = false;
};
int run_train(const TrainArguments& arguments);

struct LaunchArguments {
  int count = 1;                   // ranks
  std::string hosts;               // a file with a host per line; empty: this host
  std::vector<std::string> words;  // the command and its options
};
int run_launch(const LaunchArguments& arguments);

struct ProfileArguments {
  ConfigArguments config;
  std::string run;                   // instead of CONFIG
  std::string trace;                 // a file; empty: none
  std::vector<std::string> compare;  // two files of --json; nothing is measured
  std::int64_t updates = 5;
  bool audit = false, json = false;
};
int run_profile(const ProfileArguments& arguments);

struct VerifyArguments {
  ConfigArguments config;
  int ranks = 1;  // processes to compare with one
  std::string folder;
  bool json = false;
};
int run_verify(const VerifyArguments& arguments);

struct EvalArguments {
  ConfigArguments config;
  std::string weights, adapter;
  bool audit = false, json = false;
};
int run_eval(const EvalArguments& arguments);

// The arguments of commands that run a model without a configuration.
struct InferenceArguments {
  std::string weights, adapter;
  Changes changes;  // budgets and quantize.base
  int threads = 0;  // 0: all usable cores
  bool audit = false, json = false;
};

struct GenerateArguments : InferenceArguments {
  std::vector<std::string> prompts;
  std::optional<std::int64_t> tokens;
  double temperature = 0.8, top_p = 1;
  std::int64_t top_k = 0;  // 0: all
  std::uint64_t seed = 1;
  bool ignore_end = false;  // goes on after an end token
  // A conversation. Without prompts its turns are lines of stdin.
  bool chat = false;
  std::string system, chat_template;  // either may be empty
  std::int64_t context = 0;           // tokens; 0: what fits, up to a usual number
};
int run_generate(const GenerateArguments& arguments);
// generate --chat; the arguments common with `generate` have been checked.
int run_chat(const GenerateArguments& arguments);

struct ForwardArguments : InferenceArguments {
  std::string inputs, out;
};
int run_forward(const ForwardArguments& arguments);

struct MergeArguments {
  std::string weights, adapter, out, type;
  Changes changes;  // quantize.base
  bool json = false;
};
int run_merge(const MergeArguments& arguments);

struct ExportArguments {
  std::string weights, adapter, gguf, type;
  std::string run, tensorboard, csv;  // the records of a run
  bool follow = false, json = false;
};
int run_export(const ExportArguments& arguments);
// export RUN; one of `tensorboard` and `csv` is not empty.
int export_records(const ExportArguments& arguments);

struct RunsListArguments {
  std::vector<std::string> folders, where;
  std::string sort;
  bool json = false;
};
int run_runs_list(const RunsListArguments& arguments);

struct RunsShowArguments {
  std::string run;
  bool json = false;
};
int run_runs_show(const RunsShowArguments& arguments);

struct RunsCompareArguments {
  std::vector<std::string> runs;
  bool json = false;
};
int run_runs_compare(const RunsCompareArguments& arguments);

struct RunsNoteArguments {
  std::string run, text;
};
int run_runs_note(const RunsNoteArguments& arguments);

struct RunsRemoveArguments {
  std::string run;
  bool yes = false;
};
int run_runs_remove(const RunsRemoveArguments& arguments);

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out;  // empty: report.html in the folder of the run
};
int run_report(const ReportArguments& arguments);

struct WatchArguments {
  std::string run;
};
int run_watch(const WatchArguments& arguments);

struct TokenizeArguments {
  std::string tokenizer, text, file;  // text if file is empty
  bool decode = false, no_special = false, keep_special = false, json = false;
};
int run_tokenize(const TokenizeArguments& arguments);

struct DataShowArguments {
  ConfigArguments config;
  std::int64_t samples = 3;
  bool json = false;
};
int run_data_show(const DataShowArguments& arguments);

struct LayoutArguments {
  std::string file, out;
  std::optional<std::int64_t> capacity;
  bool minimize = false, json = false;
  std::optional<std::int64_t> work_limit;
};
int run_layout(const LayoutArguments& arguments);

struct RecomputeArguments {
  std::string file, memory, out;
  std::optional<std::int64_t> work;
  bool json = false;
};
int run_recompute(const RecomputeArguments& arguments);

struct MachineArguments {
  ConfigArguments config;  // may be empty; never with budgets
  bool json = false;
};
int run_machine(const MachineArguments& arguments);

struct InitArguments {
  std::string what;               // a preset, or the folder of a model
  std::vector<std::string> data;  // for that model
  Changes changes;                // keys of the data
  Changes budgets;
  bool json = false;
};
int run_init(const InitArguments& arguments);

struct ExplainArguments {
  std::vector<std::string> what;  // words of one name
  std::string plan;
};
int run_explain(const ExplainArguments& arguments);

// "plimsoll 0.1.0", instruction set, libraries, threads.
std::string version_text();

}  // namespace plimsoll
