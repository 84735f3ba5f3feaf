#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/error.h"
#include "base/memory_limit.h"
#include "cli/advice.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/json_log.h"
#include "cli/plan/plan_text.h"
#include "cli/plan/refusal.h"
#include "cli/ranks.h"
#include "cli/run_commands.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "cli/spelling.h"
#include "cli/train_watcher.h"
#include "formats/atomic_file.h"
#include "prepare/planning.h"
#include "records/checkpoints.h"
#include "records/run_folder.h"
#include "records/run_reader.h"
#include "report/page.h"
#include "session/probe.h"
#include "session/resume.h"
#include "session/run_lines.h"
#include "session/run_record.h"
#include "session/session.h"
#include "train/faults.h"

namespace plimsoll {
namespace {

std::string default_run_name(const Config& config) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", std::gmtime(&now));
  return fmt::format("runs/{}-{}", date, config_hash(config).substr(0, 8));
}

// A run with its folder and its configuration.
struct OpenedRun {
  RunFolder folder;
  Config config;
  RunSettings settings;
};

// After the end of the schedule the rate keeps its last value, which may be 0.
void note_end_of_schedule(const Config& config, std::int64_t updates) {
  if (updates <= config.train.updates || config.schedule.kind == ScheduleKind::constant) return;
  const double rate = learning_rate_at(config, config.train.updates * config.train.effective_batch);
  say_line(fmt::format(
      "note: --updates {} is past train.updates = {}, where the schedule ends: from there on the learning rate is {:g}{}; "
      "--set train.updates={} stretches the schedule",
      updates, config.train.updates, rate, rate == 0 ? ", and nothing is learned" : "", updates));
}

// The options that change a training.
std::string options_text(const TrainArguments& arguments) {
  return fmt::format("{} {} {} {} {} {}", arguments.updates.value_or(0), arguments.audit, arguments.resume, arguments.checkpoint,
                     arguments.from, arguments.fault);
}

// All ranks have the same configuration. The first opens the folder.
RunFolder open_folder(const TrainArguments& arguments, const Config& config, const Ranks& ranks) {
  const std::string path = arguments.run.empty() ? default_run_name(config) : arguments.run;
  if (ranks.peers() == nullptr) return RunFolder::open(path, arguments.resume);
  ranks.check_device(config);
  ranks.compare(config, options_text(arguments));
  std::error_code error;
  const std::string whole = ranks.of_first(std::filesystem::absolute(path, error).lexically_normal().string());
  RunFolder folder = ranks.first() ? RunFolder::open(whole, arguments.resume) : RunFolder::of_another_rank(whole);
  ranks.check_folder(whole);
  return folder;
}

OpenedRun open_run(const TrainArguments& arguments, const Ranks& ranks) {
  if (!arguments.resume) {
    RunSettings settings = read_settings_of(ranks.in_turn([&] { return with_data(arguments.config); }));
    Config config = load_settings(settings);
    note_end_of_schedule(config, arguments.updates.value_or(0));
    demand_verified(config);
    catch_signals(ranks.peers() != nullptr);
    RunFolder folder = open_folder(arguments, config, ranks);
    return {std::move(folder), std::move(config), std::move(settings)};
  }
  RunFolder folder = ranks.first() ? RunFolder::open(arguments.run, true) : RunFolder::of_another_rank(arguments.run);
  ranks.check_folder(folder.path().string());
  Changes changes = arguments.config.changes;
  const auto resume = [&] {
    return resume_config(folder.path(), {arguments.config.file, typed_settings_of(changes), arguments.force});
  };
  ResumedConfig resumed = resume();
  if (is_typed(changes, "train.epochs") && !is_typed(changes, "train.updates") && resumed.config.train.epochs) {
    if (std::optional<Change> length = length_of_epochs(resumed.config)) {
      changes.push_back(*std::move(length));
      resumed = resume();
    }
  }
  settle(resumed.config);
  note_end_of_schedule(resumed.config, arguments.updates.value_or(0));
  demand_verified(resumed.config);
  catch_signals(ranks.peers() != nullptr);
  ranks.check_device(resumed.config);
  ranks.compare(resumed.config, options_text(arguments));
  return {std::move(folder), std::move(resumed.config), std::move(resumed.settings)};
}

void say_what_was_there(const RunFolder& folder) {
  if (folder.begins_anew()) {
    say_line(fmt::format("note: nothing of the run in {} has been saved; it begins anew", folder.path().string()));
  }
  if (const auto process = folder.ended_process()) {
    say_line(fmt::format("note: process {} ended without a report: the run counts as interrupted and goes on from its checkpoint",
                         *process));
  }
}

std::string stopped_by() { return stop_requested() ? stop_reason() : std::string(); }

SessionRequest request_of(const TrainArguments& arguments, OpenedRun& run, const Ranks& ranks) {
  SessionRequest request;
  request.settings = std::move(run.settings);
  request.prepare.probe = probe_shape;
  request.prepare.cache = cache_folder();
  request.prepare.stopped = stop_requested;
  request.prepare.decided = [](const nlohmann::json& refusal) { say_text(verdict_text(refusal)); };
  request.prepare.plan_file = arguments.plan;
  request.updates = arguments.updates.value_or(run.config.train.updates);
  request.resumes = arguments.resume;
  request.checkpoint = arguments.checkpoint;
  if (!arguments.from.empty()) request.from = find_checkpoint(arguments.from);
  request.forced = arguments.force;
  request.audit = arguments.audit;
  request.fault = arguments.fault;
  request.stopped_by = stopped_by;
  request.peers = ranks.peers();
  request.first_of_host = ranks.first_of_host();
  request.prepare.peers = ranks.memory();
  return request;
}

// Completes the advice of an error with the settings of the run. A run without a checkpoint begins anew. A run that is resumed
// gets the options of this command that it does not keep.
void complete(Error& error, const TrainArguments& arguments, const RunFolder& folder, const Config& run) {
  const Remedy resume = RunCommands(arguments, folder, run).resume();
  for (Remedy& remedy : error.remedies) {
    if (remedy.command == "train CONFIG" && std::ranges::find(remedy.changes, resume.changes[0]) != remedy.changes.end()) {
      remedy.command = resume.command;
      remedy.changes.insert(remedy.changes.begin() + 2, resume.changes.begin() + 2, resume.changes.end());
    }
    if (std::ranges::find(remedy.changes, Change("command.run", "DIR")) == remedy.changes.end()) continue;
    if (!folder.has_checkpoint()) std::erase(remedy.changes, Change("command.resume"));
  }
  name_run(error, folder.path().string());
  ConfigArguments config = arguments.config;
  if (arguments.resume) config.file = (folder.path() / "config.resolved.toml").string();
  complete_advice(error, config);
}

struct ResultOfRank final : Consumer {
  void see(const Event& event) override {
    if (const auto* finished = std::get_if<Finished>(&event); finished != nullptr && !finished->stopped_by.empty()) {
      exit_code = static_cast<int>(ExitCode::interrupted);
    }
  }
  int exit_code = 0;
};

// Writes the page of a run that this process has begun, in a child, after the memory of the training is free again. A page that
// cannot be written is a note.
void report_at_end(const OpenedRun& run) {
  if (!run.config.records.report || read_run(run.folder.path()).pid != ::getpid()) return;
  const std::filesystem::path page = run.folder.path() / kReportFile;
  try {
    const MemoryLimit limit(planning_memory(run.config, {}));
    run_in_child([&] {
      write_file_atomically(page, report_page({{run.folder.path()}}, text_of));
      return std::string();
    });
    if (!logs_json()) say_line("report: " + page.string());  // the last object of a log tells the end
  } catch (const Error& error) {
    say_line(fmt::format("note: {} could not be written: {}: {}", page.string(), error.code, error.message));
  } catch (const std::exception& error) {
    say_line(fmt::format("note: {} could not be written: {}", page.string(), error.what()));
  }
}

int train(const TrainArguments& arguments, OpenedRun& run, const Ranks& ranks) {
  say_what_was_there(run.folder);
  const SessionRequest request = request_of(arguments, run, ranks);
  const RunCommands commands(arguments, run.folder, run.config);
  RunLines lines(run.folder);
  RunRecord record(run.folder);
  std::optional<TrainWatcher> watcher;
  std::optional<JsonLog> log;
  Consumer& shows = logs_json() ? static_cast<Consumer&>(log.emplace(record.report(), run.folder.path()))
                                : watcher.emplace(record.report(), commands);
  // The other ranks record nothing but the end.
  ResultOfRank result;
  const std::vector<Consumer*> consumers =
      ranks.first() ? std::vector<Consumer*>{&lines, &record, &shows} : std::vector<Consumer*>{&result};
  Session session(run.config, request, run.folder, consumers);
  if (const std::optional<Refused> refused = session.run()) {
    return ranks.first() ? refuse(*refused, arguments.json) : static_cast<int>(ExitCode::does_not_fit);
  }
  if (!ranks.first()) return result.exit_code;
  if (arguments.json) print_json(record.report().to_json());
  return record.report().exit_code;
}

}  // namespace

int run_train(const TrainArguments& arguments) {
  if (arguments.resume && arguments.run.empty()) {
    throw config_error("E-USAGE", "plimsoll train", "--resume does not say which run", "--run with the folder of a run",
                       {Remedy::of_command("train CONFIG", {{"command.run", "DIR"}, {"command.resume"}})});
  }
  parse_faults(arguments.fault);  // before the folder is created
  if (!arguments.checkpoint.empty() && !arguments.resume) {
    throw config_error("E-USAGE", "--checkpoint", "it is given without --resume", "a run that is resumed from that checkpoint");
  }
  const std::string& named = arguments.checkpoint;
  const bool number = !named.empty() && named.front() != '0' && named.find_first_not_of("0123456789") == std::string::npos;
  if (!named.empty() && named != "last" && named != "best" && !number) {
    throw config_error("E-USAGE", "--checkpoint", fmt::format("it is '{}'", named), "last, best, or the update of a checkpoint");
  }
  if (!arguments.from.empty() && arguments.resume) {
    throw config_error("E-USAGE", "--from", "it is given with --resume",
                       "a new run with the state of another one, or this run resumed");
  }
  if (!arguments.from.empty()) find_checkpoint(arguments.from);  // before the folder is created
  if (arguments.force && !arguments.resume) {
    throw config_error("E-USAGE", "--force", "it is given without --resume", "a run that is resumed with other settings");
  }
  const Ranks ranks = Ranks::join();
  return as_rank(ranks, [&] {
    OpenedRun run = open_run(arguments, ranks);
    try {
      const int code = train(arguments, run, ranks);
      if (ranks.first()) report_at_end(run);
      return code;
    } catch (Error& error) {
      if (ranks.first()) report_at_end(run);
      complete(error, arguments, run.folder, run.config);
      throw;
    }
  });
}

}  // namespace plimsoll
