#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/plan_text.h"
#include "cli/progress.h"
#include "cli/settings.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "run/audit.h"
#include "train/divergence.h"
#include "train/group_watch.h"
#include "train/place.h"
#include "train/prepare.h"
#include "train/run_report.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

using nlohmann::json;

volatile std::sig_atomic_t interrupted = 0;
pid_t trainer_process = 0;

void on_signal(int) {
  constexpr std::string_view kText = "\nstopping at the next update boundary; once more ends at once, unsaved\n";
  interrupted = 1;
  if (::getpid() != trainer_process) return;  // a child that plans
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kText.data(), kText.size());
}

// The first Ctrl-C stops at the next update boundary; a second one ends the process as usual. Planning is no boundary: a run that
// is interrupted there is saved as it begins.
void catch_signals() {
  trainer_process = ::getpid();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

std::string default_run_name(const Config& config) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", std::gmtime(&now));
  return fmt::format("runs/{}-{}", date, config_hash(config).substr(0, 8));
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

// What a run began with decides its samples, its noise and its sums; only what does not may change, and the rest is said.
void check_resumed_config(const Config& config, const Progress& progress, const std::filesystem::path& run) {
  const std::filesystem::path resolved = run / "config.resolved.toml";
  const auto refuse = [&](const std::string& what) {
    return config_error("E-RESUME", run.string(), what, "the configuration of the run",
                        {fmt::format("plimsoll train {} --run {} --resume", resolved.string(), run.string())});
  };
  const Config begun = load_config(resolved);
  if (begun.optimizer.ema_half_life.has_value() != config.optimizer.ema_half_life.has_value()) {
    throw refuse("an average of the weights is kept from the beginning or not at all");
  }
  for (const std::string& line : config_differences(begun, config)) {
    const bool dropout = starts_with_any(line, {"model.dropout:"});
    if (starts_with_any(line, {"precision.loss_scale:"})) {
      fmt::print(stderr, "note: changed since the run began: {}; the scale goes on from the checkpoint\n", line);
    }
    if (!dropout && starts_with_any(line, {"seed:", "model.", "data.format:", "data.order:", "train.effective_batch:",
                                           "optimizer.name:", "precision.compute:", "precision.parameters:",
                                           "precision.gradients:", "precision.optimizer_state:"})) {
      throw refuse("the run would be another one: " + line);
    }
    if (config.schedule.kind != ScheduleKind::constant && starts_with_any(line, {"train.updates:"})) {
      fmt::print(stderr, "note: changed since the run began: {}; the learning rate follows its schedule to the new end\n", line);
    }
    if (dropout || starts_with_any(line, {"precision.loss_scale_growth:", "train.gradient_clip", "train.label_smoothing",
                                          "train.z_loss", "optimizer.", "schedule.", "machine.threads:"})) {
      fmt::print(stderr, "note: changed since the run began: {}\n", line);
    }
  }
  if (progress.micro_batch * progress.accumulation != config.train.effective_batch) {
    throw data_error("E-CKPT-FORMAT", (run / "checkpoint.safetensors").string(),
                     fmt::format("its updates have {} x {} samples and those of the run {}", progress.micro_batch,
                                 progress.accumulation, config.train.effective_batch),
                     "the checkpoint of this run");
  }
  if (config.train.micro_batch.value_or(progress.micro_batch) != progress.micro_batch) {
    throw refuse(fmt::format("the run goes in micro-batches of {}, not of {}", progress.micro_batch, *config.train.micro_batch));
  }
}

Error as_error(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known != nullptr ? *known : internal_error("train", error.what());
}

// The state of one run from its folder to run.json.
class TrainCommand {
 public:
  TrainCommand(const TrainArguments& arguments, Config config)
      : arguments_(arguments),
        config_(std::move(config)),
        folder_(RunFolder::open(arguments.run.empty() ? default_run_name(config_) : arguments.run, arguments.resume)),
        watch_(divergence_watch(config_)) {}

  int run() {
    if (arguments_.resume) {
      resumed_ = read_progress(folder_.checkpoint());
      check_resumed_config(config_, *resumed_, folder_.path());
    }
    if (const std::optional<Refused> refused = prepare()) return refuse(*refused);
    try {
      train();
    } catch (const std::exception& error) {
      fail(as_error(error));
      throw;
    }
    folder_.write_run(report_.to_json());
    if (arguments_.json) fmt::print("{}\n", report_.to_json().dump());
    return report_.exit_code;
  }

 private:
  std::optional<Refused> prepare() {
    PrepareOptions options;
    options.cache = cache_folder();
    options.tokens = folder_.tokens();
    options.plan_file = arguments_.plan;
    options.vocabulary_to = folder_.weights();
    if (resumed_) options.micro_batch = resumed_->micro_batch;
    auto prepared = prepare_training(config_, options, [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
    if (auto* refused = std::get_if<Refused>(&prepared)) return std::move(*refused);
    prepared_ = std::get<Prepared>(std::move(prepared));
    // Opening the data has shown what "auto" only guesses; whoever opens the weights relies on it.
    if (config_.model.init.empty()) config_.model.shape.byte_vocabulary = prepared_.train.bytes_per_token == 1;
    if (resumed_ && resumed_->data_hash != prepared_.data_hash) {
      throw config_error("E-RESUME-DATA", folder_.path().string(), "the training data is not the data of this run",
                         "the same file as before", {"--run ANOTHER_FOLDER"});
    }
    return {};
  }

  int refuse(const Refused& refused) const {
    const json plan = json::parse(refused.plan_text);
    fmt::print(stderr, "{}", plan_text(plan));
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
    begin_report(plan);

    const CudaPace unchecked = arguments_.audit ? CudaPace::kernels : CudaPace::graphs;
    Place place(config_, program, plan, config_.gpu_graphs ? unchecked : CudaPace::checked,
                arguments_.audit ? kAuditBeyond : Bytes{0});
    report_.arena_base = place.base();
    Executor executor(plan.graph, program, place.device(), plan.threads, plan.decisions.loss_chunks);
    require_algorithms(prepared_.algorithms, executor.algorithms());
    Trainer trainer(config_, model, plan, executor, data);
    std::optional<Audit> audit;
    if (arguments_.audit) {
      audit.emplace(program, plan.graph, place.device(), place.mapped());
      executor.set_observer(&*audit);
      trainer.before_phase([&](Phase phase) { audit->enter(phase); });
    } else {
      trainer.after_warmup([&] { check_reserve(plan, place.device()); });
    }
    if (!arguments_.fault.empty()) {
      fmt::print(stderr, "note: this training is made wrong on purpose: --fault {}\n", arguments_.fault);
      trainer.make_wrong(parse_faults(arguments_.fault));
      report_.fault = arguments_.fault;
    }
    const std::filesystem::path checkpoint = folder_.checkpoint();
    trainer.load(resumed_ ? &checkpoint : nullptr);
    if (resumed_) saved_at_ = resumed_->updates;
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

  static Error refuted(std::string message) {
    return Error(ErrorKind::internal, ExitCode::verify_failed, "E-VERIFY", "audit", std::move(message),
                 "bytes that are written and read exactly where the plan says");
  }

  // Phase by phase, what was measured is what was planned.
  static void check_audit(const Plan& plan, const std::vector<PhaseAudit>& measured) {
    const std::string difference = audit_difference(plan.phases, measured);
    if (!difference.empty()) throw refuted(difference);
  }

  void begin_report(const Plan& plan) {
    report_.command = "train";
    report_.describe(config_, plan, prepared_.machine, prepared_.budget);
    report_.data_hash = prepared_.data_hash;
    folder_.write("config.resolved.toml", resolved_toml(config_));
    folder_.write("plan.json", prepared_.plan_text + "\n");
    folder_.open_metrics(resumed_ ? resumed_->updates : 0,
                         [&](const Metrics& metrics) { watch_.see(metrics.update, metrics.loss, metrics.grad_norm); });
    folder_.open_evaluations(resumed_ ? resumed_->updates : 0);
    folder_.open_events(resumed_ ? resumed_->updates : 0, [&](const json& event) { was_told(event); });
    folder_.write_run(report_.to_json());
    begun_ = true;
    fmt::print(stderr, "{}", plan_summary(json::parse(prepared_.plan_text)));
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
    trainer.on_overflow([&](const Overflow& overflow) { note(overflow, line); });
    while (trainer.progress().updates < updates && interrupted == 0) {
      Metrics metrics = next_update(trainer);
      report_.note(trainer.progress());
      const DivergenceWatch::Seen seen = watch_.see(metrics.update, metrics.loss, metrics.grad_norm);
      metrics.spike = seen.spike;
      folder_.append(metrics);
      line.show(metrics);
      tell_of_groups(trainer, metrics.loss_scale, line);
      tell(seen, trainer, line);
      if (metrics.update == updates) break;
      if (data.validation && due(config_.train.evaluate_every, metrics.update)) evaluate(trainer, line);
      if (!due(config_.train.save_every, metrics.update)) continue;
      save(trainer);
      if (metrics.update == config_.train.save_every) report_.warm_up_again();
    }
    const bool done = trainer.progress().updates >= updates;
    save(trainer);
    if (done && data.validation) evaluate(trainer, line);
    if (done) {
      report_.status = "done";
    } else {
      report_.interrupt();
    }
  }

  // Where no loss scale helps, the weights are still numbers: they are kept, and the checkpoint stays as it was.
  Metrics next_update(Trainer& trainer) const {
    try {
      return trainer.update();
    } catch (Error& error) {
      if (error.code != "E-SCALE-FLOOR") throw;
      trainer.save_checkpoint_to(folder_.diverged());
      error.expected += fmt::format("; the state is in {}", folder_.diverged().string());
      throw;
    }
  }

  void note(const Overflow& overflow, ProgressLine& line) const {
    json event = {{"event", overflow.skipped ? "skipped" : "overflow"},
                  {"update", overflow.update},
                  {"loss_scale", overflow.scale},
                  {"micro_steps", overflow.micro}};
    if (overflow.skipped) {
      json samples = json::array();
      for (const SampleRef& sample : overflow.samples) samples.push_back({sample.epoch, sample.sample});
      event["samples"] = samples;
    }
    folder_.append_event(event);
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

  void tell_of_groups(const Trainer& trainer, std::optional<double> loss_scale, ProgressLine& line) {
    const std::int64_t update = trainer.progress().updates;
    std::vector<GroupWarning> warnings = groups_->see(update, trainer.report());
    if (loss_scale) {
      std::ranges::move(groups_->see_small(trainer.small_gradients(), *loss_scale), std::back_inserter(warnings));
    }
    for (const GroupWarning& warning : warnings) {
      folder_.append_event({{"event", warning.reason}, {"update", update}, {"names", warning.names}, {"most", warning.most}});
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
                {"--set optimizer.learning_rate=" + fmt::format("{:g}", config_.optimizer.learning_rate / 10),
                 "--set train.on_divergence=continue"});
  }

  // Validation data that cannot be read must not cost what was learned: the checkpoint comes first.
  void evaluate(Trainer& trainer, ProgressLine& line) {
    try {
      const double start = seconds_now();
      const EvaluationResult result = trainer.evaluate_now();
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
    folder_.sync();
    trainer.save_checkpoint_to(folder_.checkpoint());
    saved_at_ = trainer.progress().updates;
  }

  static bool due(std::int64_t every, std::int64_t update) { return every > 0 && update % every == 0; }

  void finish(Trainer& trainer, const Plan& plan, const Device& device, Audit* audit) {
    trainer.save_weights_to(folder_.weights());
    if (config_.optimizer.ema_half_life) save_averages(trainer);
    report_.parameters_hash = trainer.hash_parameters();
    report_.finish(trainer.progress(), device, audit);
    summarise(trainer.progress(), plan);
  }

  // With the vocabulary that the weights have.
  void save_averages(Trainer& trainer) const {
    trainer.save_weights_to(folder_.averages(), /*averages=*/true);
    for (const char* name : {"vocab.json", "merges.txt"}) {
      std::error_code error;
      const std::filesystem::path from = folder_.weights() / name, to = folder_.averages() / name;
      if (!std::filesystem::exists(from, error)) continue;
      std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing, error);
      if (error) throw data_error("E-IO-WRITE", to.string(), "it cannot be written: " + error.message());
    }
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
    fmt::print(stderr, "{}\nmemory: process {} of {}; arena planned {}, touched {}\n", text, to_text(report_.process_hwm),
               to_text(promised(plan)), to_text(align_up(plan.arena, kPage)), to_text(align_up(report_.measured_arena, kPage)));
    if (done) {
      const std::string weights = folder_.weights().string();
      fmt::print(stderr, "weights: {}\ntry: plimsoll generate --weights {} --prompt \"...\"\n", weights, weights);
    } else {
      fmt::print(stderr, "continue: plimsoll train {} --run {} --resume\n", arguments_.config.file, folder_.path().string());
    }
  }

  const TrainArguments& arguments_;
  Config config_;
  RunFolder folder_;
  std::optional<Progress> resumed_;
  Prepared prepared_;
  RunReport report_;
  bool begun_ = false;
  std::int64_t saved_at_ = -1;  // updates of the checkpoint in the folder
  DivergenceWatch watch_;
  std::optional<GroupWatch> groups_;
  bool told_unstable_ = false, told_divergence_ = false;
};

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
  Config config = load_settings(arguments.config);
  demand_verified(config);
  catch_signals();
  return TrainCommand(arguments, std::move(config)).run();
}

}  // namespace plimsoll
