#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/shell.h"
#include "base/text.h"
#include "cli/advice.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/plan_text.h"
#include "cli/progress.h"
#include "cli/run_commands.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "formats/tokenizer_folder.h"
#include "models/family.h"
#include "run/audit.h"
#include "train/config_keys.h"
#include "train/config_rules.h"
#include "train/divergence.h"
#include "train/group_watch.h"
#include "train/place.h"
#include "train/prepare.h"
#include "train/resume.h"
#include "train/run_report.h"
#include "train/run_room.h"
#include "train/run_settings.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

using nlohmann::json;

std::string default_run_name(const Config& config) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", std::gmtime(&now));
  return fmt::format("runs/{}-{}", date, config_hash(config).substr(0, 8));
}

Error as_error(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known != nullptr ? *known : internal_error("train", error.what());
}

// The state of one run from its folder to run.json.
class TrainCommand {
 public:
  TrainCommand(const TrainArguments& arguments, RunFolder folder, Config config, RunSettings settings)
      : arguments_(arguments),
        config_(std::move(config)),
        settings_(std::move(settings)),
        folder_(std::move(folder)),
        watch_(divergence_watch(config_)) {}

  int run() try {
    if (folder_.begins_anew()) {
      say_line(fmt::format("note: nothing of the run in {} has been saved; it begins anew", folder_.path().string()));
    }
    if (const auto process = folder_.ended_process()) {
      say_line(fmt::format("note: process {} ended without a word: the run counts as interrupted and goes on from its checkpoint",
                           *process));
    }
    if (arguments_.resume) find_checkpoint();
    if (const std::optional<Refused> refused = prepare()) return refuse(*refused);
    try {
      train();
    } catch (const std::exception& error) {
      const Error known = as_error(error);
      fail(known);
      throw known;
    }
    try {
      folder_.write_run(report_.to_json());
    } catch (const Error&) {
      folder_.overwrite_run(report_.to_json());
      throw;
    }
    if (arguments_.json) fmt::print("{}\n", report_.to_json().dump());
    return report_.exit_code;
  } catch (Error& error) {
    complete(error);
    throw;
  }

 private:
  // What is advised to a run that keeps its settings names them; one of which nothing has been saved begins anew.
  void complete(Error& error) const {
    std::error_code ignored;
    for (std::string& remedy : error.remedies) {
      constexpr std::string_view kResume = "CONFIG --run DIR --resume", kBegin = "CONFIG --run DIR";
      const std::size_t at = remedy.find(kResume);
      const bool saved = std::filesystem::exists(folder_.checkpoint(), ignored);
      if (at != std::string::npos && !saved) remedy.replace(at, kResume.size(), kBegin);
    }
    name_run(error, folder_.path().string());
    ConfigArguments config = arguments_.config;
    if (arguments_.resume) config.file = (folder_.path() / "config.resolved.toml").string();
    complete_advice(error, config);
  }

  // The last checkpoint; where a run that diverged is to go on all the same, what it was then, if nothing later was saved.
  void find_checkpoint() {
    std::error_code ignored;
    checkpoint_ = folder_.checkpoint();
    const bool saved = std::filesystem::exists(checkpoint_, ignored);
    const bool diverged = std::filesystem::exists(folder_.diverged(), ignored);
    if (!saved && !(diverged && config_.train.on_divergence == OnDivergence::proceed)) {
      if (diverged)
        throw no_checkpoint("there is no checkpoint but of what has diverged", {commands().go_on(), slower_command(0)});
      throw no_checkpoint("there is no checkpoint: nothing of this run has been saved",
                          {run_diverged(folder_.path()) ? slower_command(0) : commands().again()});
    }
    if (saved) resumed_ = read_progress(checkpoint_);
    if (diverged && config_.train.on_divergence == OnDivergence::proceed) {
      const Progress then = read_progress(folder_.diverged());
      if (!resumed_ || then.updates > resumed_->updates) {
        resumed_ = then;
        checkpoint_ = folder_.diverged();
        say_line(fmt::format("note: it goes on from {}, at update {}", checkpoint_.string(), then.updates));
      }
    }
    check_resumed_batch(config_, *resumed_, folder_.path(), checkpoint_);
  }

  Error no_checkpoint(std::string message, std::vector<std::string> remedies) const {
    return data_error("E-CKPT-MISSING", folder_.checkpoint().string(), std::move(message), "a run that was saved or interrupted",
                      std::move(remedies));
  }

  RunCommands commands() const { return {arguments_, folder_, config_}; }
  std::string slower_command(std::int64_t good_updates) const {
    return commands().slower(saved_at_ >= 0 && saved_at_ <= good_updates);
  }

  std::optional<Refused> prepare() {
    PrepareOptions options;
    options.cache = cache_folder();
    options.tokens = folder_.tokens();
    options.plan_file = arguments_.plan;
    options.weights_folder = folder_.weights();
    options.resumes = arguments_.resume;
    std::error_code ignored;
    const std::filesystem::path runs = folder_.lies_in();
    if (!runs.empty() && runs != std::filesystem::current_path(ignored)) options.runs = runs;
    if (resumed_) options.micro_batch = resumed_->micro_batch;
    auto prepared = prepare_training(config_, options, say_line);
    if (auto* refused = std::get_if<Refused>(&prepared)) return std::move(*refused);
    prepared_ = std::get<Prepared>(std::move(prepared));
    // Opening the data has shown what "auto" only guesses; whoever opens the weights relies on it.
    if (ModelConfig& model = config_.model.config; config_.model.init.empty()) {
      model = with_vocabulary(model, facts_of(model).vocab, prepared_.train.bytes_per_token == 1);
    }
    if (resumed_ && resumed_->data_hash != prepared_.data_hash) {
      throw config_error("E-RESUME-DATA", folder_.path().string(), "the training data is not the data of this run",
                         "the same file as before", {commands().other_data()});
    }
    return {};
  }

  int refuse(const Refused& refused) const {
    const json plan = json::parse(refused.plan_text);
    say_text(plan_text(plan));
    if (arguments_.json) fmt::print("{}\n", plan.dump());
    return static_cast<int>(ExitCode::does_not_fit);
  }

  // run.json of a run that has begun says what ended it; where not even that can be written, the first error is the one to tell.
  void fail(const Error& error) {
    if (!begun_) return;
    report_.fail(error);
    try {
      folder_.write_run(report_.to_json());
    } catch (const Error&) {
      folder_.overwrite_run(report_.to_json());
    }
  }

  void train() {
    cpu::set_thread_count(config_.threads);
    const DataFiles data = open_data(prepared_);
    TrainingGraph model = build_training_graph(config_, data.facts(), prepared_.record.decisions.micro_batch);
    Plan plan = rebuild_plan(config_, model, prepared_);
    groups_.emplace(group_watch(plan.graph, model.training, model.underflow, warmup_updates(config_)));
    model.graph = {};  // the plan has its own
    const Program program = lower(plan);
    verify(program, plan.graph);
    plan.forget_analysis();
    const RunRoom room = room_of_run(plan.graph, config_.model.config, config_.optimizer.ema_half_life.has_value());
    check_room_for(plan, room);
    describe_run(plan);
    if (!resumed_) begin();
    check_file_limit(folder_, room);

    const CudaPace unchecked = arguments_.audit ? CudaPace::kernels : CudaPace::graphs;
    Place place(config_, program, plan, config_.gpu_graphs ? unchecked : CudaPace::checked,
                arguments_.audit ? kAuditBeyond : Bytes{0});
    report_.arena_base = place.base();
    Executor executor(plan.graph, program, place.device(), plan.threads, plan.decisions.loss_chunks);
    require_algorithms(prepared_.algorithms, executor.algorithms());
    const DataSources sources(data, config_.model.context);
    Trainer trainer(config_, model, plan, executor, sources.data());
    std::optional<Audit> audit;
    if (arguments_.audit) {
      audit.emplace(program, plan.graph, place.device(), place.mapped());
      executor.add_observer(*audit);
      trainer.before_phase([&](Phase phase) { audit->enter(phase); });
    } else {
      trainer.after_warmup([&] { check_reserve(plan, place.device()); });
    }
    if (!arguments_.fault.empty()) {
      say_line(fmt::format("note: this training is made wrong on purpose: --fault {}", arguments_.fault));
      trainer.make_wrong(parse_faults(arguments_.fault));
      report_.fault = arguments_.fault;
    }
    trainer.load(resumed_ ? &checkpoint_ : nullptr);
    if (resumed_) begin();  // what the folder holds stays as it is until the checkpoint has been read
    if (resumed_ && checkpoint_ == folder_.checkpoint()) saved_at_ = resumed_->updates;
    trainer.progress().data_hash = prepared_.data_hash;
    try {
      loop(trainer, plan, data);
      finish(trainer, plan, place.device(), audit ? &*audit : nullptr);
    } catch (const Error& error) {
      if (audit && (error.where == "audit" || error.where == "check")) throw refuted(error.message);
      throw;
    }
    if (audit) check_audit(plan, audit->phases());
  }

  // Before the run begins, so that nothing of it stays.
  void check_room_for(const Plan& plan, const RunRoom& room) const {
    const std::size_t disk = disk_of(prepared_.machine);
    std::error_code error;
    const std::vector<std::filesystem::path> elsewhere{std::filesystem::current_path(error) / "runs",
                                                       std::filesystem::temp_directory_path(error)};
    check_room(folder_, room, disk > 0 ? plan.stored[disk] : Bytes{0},
               config_.memory.disk ? config_.memory.disk->folder : std::filesystem::path(), elsewhere);
  }

  static Error refuted(std::string message) {
    return Error(ErrorKind::internal, ExitCode::verify_failed, "E-VERIFY", "audit", std::move(message),
                 "bytes that are written and read exactly where the plan says");
  }

  // Phase by phase, what was measured is what was planned.
  static void check_audit(const Plan& plan, const std::vector<PhaseAudit>& measured) {
    const std::string difference = audit_difference(plan.phases, measured);
    if (!difference.empty()) throw refuted(difference);
  }

  void describe_run(const Plan& plan) {
    report_.command = "train";
    report_.describe(config_, plan, prepared_.machine, prepared_.budget);
    report_.data_hash = prepared_.data_hash;
    say_text(plan_summary(json::parse(prepared_.plan_text)));
  }

  void begin() {
    folder_.write(kRunSettings, to_json(settings_, folder_.path()));
    if (!config_.model.init.empty()) keep_shape();
    folder_.write("config.resolved.toml", resolved_toml(config_));
    folder_.write("plan.json", prepared_.plan_text + "\n");
    folder_.open_metrics(resumed_ ? resumed_->updates : 0,
                         [&](const Metrics& metrics) { watch_.see(metrics.update, metrics.loss, metrics.grad_norm); });
    folder_.open_evaluations(resumed_ ? resumed_->updates : 0);
    folder_.open_events(resumed_ ? resumed_->updates : 0, [&](const json& event) { was_told(event); });
    folder_.write_run(report_.to_json());
    begun_ = true;
  }

  // Of a folder that may be gone when this run is resumed.
  void keep_shape() const {
    std::error_code error;
    std::filesystem::create_directories(folder_.weights(), error);
    if (error) throw data_error("E-IO-WRITE", folder_.weights().string(), "the folder cannot be created: " + error.message());
    config_.model.config.family().write(config_.model.config, folder_.weights());
  }

  static Error outside_of_plan(std::string message, std::string remedy) {
    return {ErrorKind::environment, ExitCode::does_not_fit,
            "E-MEM-RESERVE",        "process",
            std::move(message),     "what `plimsoll machine` measured",
            {std::move(remedy)}};
  }

  // Everything has run once and nothing has been updated: more outside the arena than planned is refused now.
  void check_reserve(const Plan& plan, const Device& device) const {
    if (const std::optional<Bytes> used = device.used(); used && *used > plan.process) {
      throw outside_of_plan(fmt::format("the driver counts {} of the device for this process, {} were planned", to_text(*used),
                                        to_text(plan.process)),
                            "nvidia-smi, to see whose they are, where this runs in a container");
    }
    const bool here = config_.device != DeviceChoice::cuda;
    const Bytes arenas = (here ? align_up(plan.arena, kPage) : Bytes{0}) + (plan.host.n > 0 ? plan.stored[1] : Bytes{0});
    const Bytes outside = peak_resident() - arenas, planned = (here ? plan.process : Bytes{0}) + plan.host - arenas;
    if (outside <= planned) return;
    throw outside_of_plan(fmt::format("{} lie outside the arenas, {} were planned", to_text(outside), to_text(planned)),
                          "remove the machine file and let it be measured again");
  }

  void loop(Trainer& trainer, const Plan& plan, const DataFiles& data) {
    const std::int64_t updates = arguments_.updates.value_or(config_.train.updates);
    ProgressLine line(updates, promised(plan));
    trainer.on_overflow([&](const Overflow& overflow) { note(overflow, trainer, line); });
    saved_time_ = seconds_now();
    while (trainer.progress().updates < updates && !stop_requested()) {
      Metrics metrics = next_update(trainer);
      report_.note(trainer.progress());
      const DivergenceWatch::Seen seen = watch_.see(metrics.update, metrics.loss, metrics.grad_norm);
      metrics.spike = seen.spike;
      record(trainer, [&] { folder_.append(metrics); });
      line.show(metrics);
      tell_of_groups(trainer, metrics.loss_scale, line);
      tell(seen, trainer, line);
      if (metrics.update == updates) break;
      if (data.validation && due(config_.train.evaluate_every, metrics.update)) evaluate(trainer, line);
      if (!save_is_due(metrics.update)) continue;
      save(trainer);
      if (!std::exchange(saved_between_, true)) report_.warm_up_again();
    }
    const bool done = trainer.progress().updates >= updates;
    save(trainer);
    if (done && data.validation) evaluate(trainer, line);
    if (done) {
      report_.status = "done";
    } else {
      report_.interrupt(stop_reason());
    }
  }

  // Where no loss scale helps, the weights are still numbers: they are kept, and the checkpoint stays as it was.
  Metrics next_update(Trainer& trainer) const {
    try {
      return trainer.update();
    } catch (Error& error) {
      if (error.code == "E-DIVERGED") error.remedies = {slower_command(trainer.progress().updates)};
      if (error.code != "E-SCALE-FLOOR") throw;
      error.remedies = {commands().begin_beside() + " --set precision.compute=bf16", slower_command(trainer.progress().updates)};
      trainer.save_checkpoint_to(folder_.diverged());
      error.expected += fmt::format("; the state is in {}", folder_.diverged().string());
      throw;
    }
  }

  // What cannot be written down ends the run, and must not cost what was learned: the checkpoint comes first.
  template <class Write>
  void record(Trainer& trainer, Write write) {
    try {
      write();
    } catch (const Error&) {
      try {
        save(trainer);
      } catch (const Error&) {  // of the same disk; the first error is the one to tell
      }
      throw;
    }
  }

  void note(const Overflow& overflow, Trainer& trainer, ProgressLine& line) {
    json event = {{"event", overflow.skipped ? "skipped" : "overflow"},
                  {"update", overflow.update},
                  {"loss_scale", overflow.scale},
                  {"micro_steps", overflow.micro}};
    if (overflow.skipped) {
      json samples = json::array();
      for (const SampleRef& sample : overflow.samples) samples.push_back({sample.epoch, sample.sample});
      event["samples"] = samples;
    }
    record(trainer, [&] { folder_.append_event(event); });
    line.say(fmt::format("note: update {}: gradients overflow with a loss scale of {:g}; {}", overflow.update, overflow.scale,
                         overflow.skipped ? "its samples are left out (events.jsonl)" : "again with half of it"));
  }

  // Of an event of this run before it was resumed.
  void was_told(const json& event) {
    if (!event.contains("names") || !event["names"].is_array()) return;
    for (const json& name : event["names"]) {
      if (name.is_string()) groups_->was_told(event.value("event", ""), name.get<std::string>());
    }
  }

  void tell_of_groups(Trainer& trainer, std::optional<double> loss_scale, ProgressLine& line) {
    const std::int64_t update = trainer.progress().updates;
    std::vector<GroupWarning> warnings = groups_->see(update, trainer.report());
    if (loss_scale) {
      std::ranges::move(groups_->see_small(trainer.small_gradients(), *loss_scale), std::back_inserter(warnings));
    }
    for (const GroupWarning& warning : warnings) {
      record(trainer, [&] {
        folder_.append_event({{"event", warning.reason}, {"update", update}, {"names", warning.names}, {"most", warning.most}});
      });
      line.say(fmt::format("note: update {}: {}: {}", update, warning.reason, warning.text));
    }
  }

  // The checkpoint stays as it was.
  void tell(const DivergenceWatch::Seen& seen, Trainer& trainer, ProgressLine& line) {
    if (seen.unstable && !std::exchange(told_unstable_, true)) {
      line.say("note: UNSTABLE: more than five spikes of loss or gradient norm within 1,000 updates; metrics.jsonl marks them");
    }
    if (!seen.divergence || told_divergence_) return;
    const std::string what = fmt::format("{}: {}", seen.divergence->reason, seen.divergence->text);
    if (config_.train.on_divergence == OnDivergence::proceed) {
      told_divergence_ = true;
      line.say("note: " + what);
      return;
    }
    trainer.save_checkpoint_to(folder_.diverged());
    throw Error(ErrorKind::user, ExitCode::diverged, "E-DIVERGED", fmt::format("update {}", trainer.progress().updates), what,
                fmt::format("a loss that falls; the state is in {}", folder_.diverged().string()),
                {slower_command(trainer.progress().updates - DivergenceWatch::kMostInARow), commands().go_on()});
  }

  // Validation data that cannot be read must not cost what was learned: the checkpoint comes first.
  void evaluate(Trainer& trainer, ProgressLine& line) {
    try {
      const double start = seconds_now();
      EvaluationProgress progress;
      const EvaluationResult result = trainer.evaluate_now([&](std::int64_t done, std::int64_t samples) {
        progress.show(done, samples, [&](const std::string& text) { line.say(text); });
      });
      folder_.append(
          Evaluation{trainer.progress().updates, trainer.progress().samples, result.loss, result.units, seconds_now() - start});
      if (!report_.validation) report_.warm_up_again();
      report_.validation = result;
      line.say(fmt::format("update {}  validation loss {:.4f} nats over {} units", trainer.progress().updates, result.loss,
                           result.units));
    } catch (const Error& error) {
      if (error.kind != ErrorKind::internal) save(trainer);
      throw;
    }
  }

  void save(Trainer& trainer) {
    if (saved_at_ == trainer.progress().updates) return;
    std::optional<Error> not_synced;  // which is no reason to lose what was learned
    try {
      folder_.sync();
    } catch (const Error& error) {
      not_synced = error;
    }
    trainer.save_checkpoint_to(folder_.checkpoint());
    saved_at_ = trainer.progress().updates;
    saved_time_ = seconds_now();
    if (not_synced) throw *not_synced;
  }

  bool save_is_due(std::int64_t update) const {
    const SaveInterval every = config_.train.save_every;
    if (every.seconds == 0) return due(every.updates, update);
    return seconds_now() - saved_time_ >= static_cast<double>(every.seconds);
  }

  static bool due(std::int64_t every, std::int64_t update) { return every > 0 && update % every == 0; }

  void finish(Trainer& trainer, const Plan& plan, const Device& device, Audit* audit) {
    trainer.save_weights_to(folder_.weights());
    if (config_.optimizer.ema_half_life) save_averages(trainer);
    report_.parameters_hash = trainer.hash_parameters();
    report_.finish(trainer.progress(), device, audit);
    summarise(trainer.progress(), plan);
  }

  // With the files that the weights have beside them.
  void save_averages(Trainer& trainer) const {
    std::error_code error;
    std::filesystem::create_directories(folder_.averages(), error);
    if (error) throw data_error("E-IO-WRITE", folder_.averages().string(), "the folder cannot be created: " + error.message());
    const std::array config{std::string_view("config.json")};
    for (const auto names : {tokenizer_files(), generation_files(), std::span<const std::string_view>(config)}) {
      copy_files(folder_.weights(), folder_.averages(), names, /*replace=*/true);
    }
    trainer.save_weights_to(folder_.averages(), /*averages=*/true);
  }

  // What the process may take: with that of a device on this computer, without that of a GPU.
  Bytes promised(const Plan& plan) const {
    const Bytes host = plan.host.n > 0 ? prepared_.budget.host_memory.value_or(plan.host) : Bytes{0};
    if (config_.device == DeviceChoice::cuda) return host;
    return prepared_.budget.memory.value_or(plan.process) + host;
  }

  void summarise(const Progress& progress, const Plan& plan) const {
    const bool done = report_.status == "done";
    const double rate = progress.seconds > 0 ? static_cast<double>(progress.units) / progress.seconds : 0;
    std::string text = fmt::format("{}: {} updates, {} samples in {}", done ? "done" : "interrupted", progress.updates,
                                   progress.samples, duration_text(progress.seconds));
    if (progress.updates > 0) text += fmt::format(" ({} tok/s), loss {:.4f}", rate_text(rate), progress.loss);
    if (report_.validation) text += fmt::format(", validation {:.4f}", report_.validation->loss);
    say_line(fmt::format("{}\nmemory: process {} of {}; arena planned {}, touched {}", text, to_text(report_.process_hwm),
                         to_text(promised(plan)), to_text(align_up(plan.arena, kPage)),
                         to_text(align_up(report_.measured_arena, kPage))));
    if (done) {
      const std::string weights = folder_.weights().string();
      say_line(fmt::format("weights: {}\ntry: {}", weights, commands().use()));
    } else {
      say_line(fmt::format("continue: {}", commands().resume()));
    }
  }

  const TrainArguments& arguments_;
  Config config_;
  RunSettings settings_;
  RunFolder folder_;
  std::filesystem::path checkpoint_;  // that is resumed
  std::optional<Progress> resumed_;
  Prepared prepared_;
  RunReport report_;
  bool begun_ = false;
  std::int64_t saved_at_ = -1;  // updates of the checkpoint in the folder
  double saved_time_ = 0;       // or when updates began
  bool saved_between_ = false;  // two updates
  DivergenceWatch watch_;
  std::optional<GroupWatch> groups_;
  bool told_unstable_ = false, told_divergence_ = false;
};

// Behind the end of its schedule a rate stays where it ended, which may be 0.
void note_end_of_schedule(const Config& config, std::int64_t updates) {
  if (updates <= config.train.updates || config.schedule.kind == ScheduleKind::constant) return;
  const double rate = learning_rate_at(config, config.train.updates * config.train.effective_batch);
  say_line(fmt::format(
      "note: --updates {} is past train.updates = {}, where the schedule ends: from there on the learning rate is {:g}{}; "
      "--set train.updates={} stretches the schedule",
      updates, config.train.updates, rate, rate == 0 ? ", and nothing is learned" : "", updates));
}

TrainCommand train_command(const TrainArguments& arguments) {
  if (!arguments.resume) {
    RunSettings settings = read_settings_of(arguments.config);
    Config config = load_settings(settings);
    note_end_of_schedule(config, arguments.updates.value_or(0));
    demand_verified(config);
    catch_signals();
    RunFolder folder = RunFolder::open(arguments.run.empty() ? default_run_name(config) : arguments.run, false);
    return {arguments, std::move(folder), std::move(config), std::move(settings)};
  }
  RunFolder folder = RunFolder::open(arguments.run, true);
  const std::vector<std::string> sets = sets_of(arguments.config);
  ResumedConfig resumed =
      resume_config(folder.path(), {arguments.config.file, sets, budgets_of(arguments.config), arguments.force});
  settle(resumed.config);
  note_end_of_schedule(resumed.config, arguments.updates.value_or(0));
  demand_verified(resumed.config);
  catch_signals();
  return {arguments, std::move(folder), std::move(resumed.config), std::move(resumed.settings)};
}

}  // namespace

int run_train(const TrainArguments& arguments) {
  if (arguments.resume && arguments.run.empty()) {
    throw config_error("E-USAGE", "plimsoll train", "--resume does not say which run", "--run with the folder of a run",
                       {"plimsoll train CONFIG --run DIR --resume"});
  }
  constexpr std::int64_t kMostUpdates = std::int64_t{1} << 36;
  if (const std::int64_t updates = arguments.updates.value_or(1); updates < 1 || updates > kMostUpdates) {
    throw config_error("E-USAGE", "--updates", fmt::format("it is {}", updates),
                       fmt::format("a whole number from 1 to {}", kMostUpdates));
  }
  parse_faults(arguments.fault);  // before there is a folder
  if (arguments.force && !arguments.resume) {
    throw config_error("E-USAGE", "--force", "it is given without --resume", "a run that is resumed with other settings");
  }
  return train_command(arguments).run();
}

}  // namespace plimsoll
