#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "base/child.h"
#include "base/error.h"
#include "base/memory_limit.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/plan/plan_text.h"
#include "cli/plan/refusal.h"
#include "cli/profile/profile_text.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "cli/spelling.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "formats/temporary_folder.h"
#include "prepare/data_files.h"
#include "prepare/epochs.h"
#include "prepare/planning.h"
#include "profile/compare.h"
#include "profile/profile_json.h"
#include "profile/trace.h"
#include "records/checkpoints.h"
#include "records/line_reader.h"
#include "records/run_folder.h"
#include "records/run_reader.h"
#include "records/run_report.h"
#include "run/audit.h"
#include "session/probe.h"
#include "session/resume.h"
#include "train/improvement.h"
#include "weights/checkpoint.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Files of the temporary folder.
constexpr const char *kMachineFile = "machine.json", *kPlanFile = "plan.json", *kTimesFile = "times";

// The training to be measured.
struct Subject {
  RunSettings settings;
  Config config;
  std::filesystem::path checkpoint;         // of the run; empty: a new training
  std::optional<std::int64_t> micro_batch;  // of the checkpoint
  Progress progress;                        // likewise
  double rate_factor = 1;                   // of the schedule "plateau" at the checkpoint
};

Subject open_subject(const ProfileArguments& arguments) {
  if (arguments.run.empty()) {
    RunSettings settings = read_settings_of(with_data(arguments.config));
    Config config = load_settings(settings);
    return {.settings = std::move(settings), .config = std::move(config)};
  }
  open_run_records(arguments.run);  // E-RUN-MISSING
  ResumedConfig resumed = resume_config(arguments.run, {"", typed_settings_of(arguments.config.changes), false});
  settle(resumed.config);
  Subject subject{.settings = std::move(resumed.settings), .config = std::move(resumed.config)};
  if (checkpoints_in(arguments.run).empty()) return subject;
  const Config& config = subject.config;
  subject.checkpoint = find_checkpoint(arguments.run);
  subject.progress = read_progress(subject.checkpoint);
  subject.micro_batch = config.train.micro_batch.value_or(subject.progress.micro_batch);
  for (const std::string& line : check_resumed_batch(config, subject.progress, subject.checkpoint)) say_line("note: " + line);
  check_resumed_origin(config, subject.progress, arguments.run, /*force=*/false);
  ImprovementWatch watch(config);
  read_evaluations(arguments.run, [&](const Evaluation& evaluation) {
    if (evaluation.update <= subject.progress.updates) watch.see(evaluation);
  });
  subject.rate_factor = watch.rate_factor();
  return subject;
}

// True if the training permits these changes: one from a checkpoint has to resume with them.
bool permits(const ProfileArguments& arguments, const Subject& subject, const Changes& changes) {
  if (subject.checkpoint.empty()) return true;
  Changes all = arguments.config.changes;
  all.insert(all.end(), changes.begin(), changes.end());
  try {
    const ResumedConfig resumed = resume_config(arguments.run, {"", typed_settings_of(all), false});
    check_resumed_batch(resumed.config, subject.progress, subject.checkpoint);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Where the checkpoint is saved once: beside the runs, if that folder can be written.
std::filesystem::path place_for_files(const ProfileArguments& arguments) {
  std::error_code ignored;
  const std::filesystem::path run = std::filesystem::absolute(arguments.run, ignored);
  const std::filesystem::path here = arguments.run.empty() ? std::filesystem::current_path(ignored) : run.parent_path();
  return ::access(here.c_str(), W_OK | X_OK) == 0 ? here : std::filesystem::temp_directory_path(ignored);
}

std::variant<Prepared, Refused> prepare(const Subject& subject, const std::filesystem::path& folder) {
  PrepareOptions options;
  options.probe = probe_shape;
  options.cache = cache_folder();
  options.stopped = stop_requested;
  options.decided = [](const json& refusal) { say_text(verdict_text(refusal)); };
  options.tokens = folder / "tokens";
  options.settings = subject.settings;
  options.resumes = !subject.checkpoint.empty();
  options.micro_batch = subject.micro_batch;
  options.levers = true;
  options.machine_file = folder / kMachineFile;
  return prepare_training(subject.config, options, say_line);
}

// The audit has to see the planned bytes, and never more at an instruction.
void check_audit(const Plan& plan, const Program& program, const MeasuredUpdates& measured) {
  if (measured.audited.empty()) return;
  std::string difference = audit_difference(plan.phases, measured.audited);
  if (difference.empty()) difference = excess_over_plan(plan, program, measured.audited_at);
  if (!difference.empty()) throw audit_error(difference);
}

// The report of a measurement. It needs the analysis of the plan, so it runs in a child, after the memory of the training is
// free.
class Report {
 public:
  Report(const ProfileArguments& arguments, const Subject& subject, const Prepared& prepared, const MeasuredUpdates& measured,
         const std::filesystem::path& folder)
      : arguments_(arguments), subject_(subject), prepared_(prepared), measured_(measured), folder_(folder) {}

  void write() const {
    const Config& config = subject_.config;
    const TrainingGraph model = build_training_graph(config, facts_of(config, prepared_), prepared_.record.decisions.micro_batch);
    const MachineRecord machine = read_machine_file(folder_ / kMachineFile);
    Plan plan = rebuild_plan(config, model, prepared_, &machine);
    const Program program = lower(plan);
    check_audit(plan, program, measured_);
    const json object = to_json(profile_of(plan), plan, prepared_.budget);
    if (!arguments_.trace.empty()) {
      write_trace(arguments_.trace, std::move(plan), program, prepared_.machine, read_update_times(folder_ / kTimesFile));
    }
    if (arguments_.json) {
      print_json(object);
    } else {
      print_text(profile_text(object));
    }
    std::fflush(stdout);
  }

 private:
  Profile profile_of(const Plan& plan) const {
    constexpr std::int64_t kMostText = 1 << 30;
    Profile profile{.measured = measured_,
                    .parts = parts_of(measured_),
                    .ops = op_rows(plan, measured_),
                    .peak = live_at_peak(plan, prepared_.machine),
                    .verdict = {},
                    .next_arguments = {}};
    double bound = 0;
    for (const OpRow& row : profile.ops) bound += row.measured.bound;
    profile.verdict = verdict_on(profile.parts, bound, json::parse(read_text(folder_ / kPlanFile, kMostText, "E-IO-READ")),
                                 prepared_.machine.tiers.front().capacity,
                                 [&](const Changes& changes) { return permits(arguments_, subject_, changes); });
    if (!profile.verdict.next) return profile;
    for (const Change& change : profile.verdict.next->changes) {
      for (std::string& argument : arguments_of(change)) profile.next_arguments.push_back(std::move(argument));
    }
    return profile;
  }

  const ProfileArguments& arguments_;
  const Subject& subject_;
  const Prepared& prepared_;
  const MeasuredUpdates& measured_;
  const std::filesystem::path& folder_;
};

int compare(const ProfileArguments& arguments) {
  const std::string &a = arguments.compare.at(0), &b = arguments.compare.at(1);
  const json diff = profile_diff(a, read_profile(a), b, read_profile(b));
  if (arguments.json) {
    print_json(diff);
  } else {
    print_text(fmt::format("a: {}\nb: {}\n{}", a, b, profile_diff_text(diff)));
  }
  return static_cast<int>(ExitCode::ok);
}

}  // namespace

int run_profile(const ProfileArguments& arguments) {
  if (!arguments.compare.empty()) return compare(arguments);
  Subject subject = open_subject(arguments);
  Config& config = subject.config;
  demand_verified(config);
  catch_signals();
  output_file(arguments.trace);  // fails before any work is done
  const TemporaryFolder folder(place_for_files(arguments));
  auto prepared_or = prepare(subject, folder.path());
  if (const auto* refused = std::get_if<Refused>(&prepared_or)) return refuse(*refused, arguments.json);
  Prepared prepared = std::get<Prepared>(std::move(prepared_or));
  config = with_tokens_of(std::move(config), prepared.data);
  if (!subject.checkpoint.empty()) {
    check_resumed_data(config, subject.progress, prepared.data_hash, RunFolder::of_another_rank(arguments.run));
  }
  write_file_atomically(folder / kPlanFile, prepared.plan_text);
  std::string().swap(prepared.plan_text);  // it grows with the graph
  const MeasuredUpdates measured =
      measure_updates(config, prepared,
                      {.updates = arguments.updates,
                       .audit = arguments.audit,
                       .checkpoint = subject.checkpoint,
                       .rate_factor = subject.rate_factor,
                       .prompts = std::exchange(prepared.prompts, {}),
                       .folder = folder.path(),
                       .times = arguments.trace.empty() ? std::filesystem::path() : folder / kTimesFile,
                       .stopped = stop_requested});
  const MemoryLimit limit(planning_memory(config));
  run_in_child([&] {
    Report(arguments, subject, prepared, measured, folder.path()).write();
    return std::string();
  });
  return static_cast<int>(ExitCode::ok);
}

}  // namespace plimsoll
