#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/plan_text.h"
#include "cli/progress.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "run/audit.h"
#include "train/prepare.h"
#include "train/run_report.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

using nlohmann::json;

volatile std::sig_atomic_t interrupted = 0;
void on_signal(int) { interrupted = 1; }

// The first Ctrl-C stops at the next update boundary; a second one ends the process as usual.
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

std::string default_run_name(const Config& config) {
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", std::gmtime(&now));
  return fmt::format("runs/{}-{}", date, config_hash(config).substr(0, 8));
}

Error does_not_fit(const json& plan) {
  const json& infeasible = plan.at("infeasible");
  std::vector<std::string> remedies;
  for (const json& remedy : infeasible.at("remedies")) {
    std::string arguments;
    for (const json& argument : remedy.at("arguments")) arguments += " " + argument.get<std::string>();
    remedies.push_back(fmt::format("{}:{}", remedy.at("text").get<std::string>(), arguments));
  }
  return {ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "plan",
          fmt::format("the smallest plan needs {}, {} more than the budget", to_text(Bytes{plan.at("bounds").at("floor_bytes")}),
                      to_text(Bytes{infeasible.at("short_bytes")})),
          "a budget of at least the floor, or one of these changes", std::move(remedies)};
}

// The state of one run from its folder to run.json.
class TrainCommand {
 public:
  TrainCommand(const TrainArguments& arguments, Config config)
      : arguments_(arguments),
        config_(std::move(config)),
        folder_(RunFolder::open(arguments.run.empty() ? default_run_name(config_) : arguments.run, arguments.resume)) {}

  int run() {
    if (arguments_.resume) resumed_ = read_progress(folder_.checkpoint());
    prepare();
    try {
      train();
    } catch (const Error& error) {
      report_.fail(error);
      folder_.write_run(report_.to_json());
      throw;
    }
    folder_.write_run(report_.to_json());
    if (arguments_.json) fmt::print("{}\n", report_.to_json().dump());
    return report_.exit_code;
  }

 private:
  void prepare() {
    PrepareOptions options;
    options.cache = cache_folder();
    options.plan_file = arguments_.plan;
    options.vocabulary_to = folder_.weights();
    if (resumed_) options.micro_batch = resumed_->micro_batch;
    auto prepared = prepare_training(config_, options, [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
    if (const auto* refused = std::get_if<Refused>(&prepared)) {
      const json plan = json::parse(refused->plan_text);
      fmt::print(stderr, "{}", plan_text(plan));
      throw does_not_fit(plan);
    }
    prepared_ = std::get<Prepared>(std::move(prepared));
    if (resumed_ && resumed_->data_hash != prepared_.data_hash) {
      throw config_error("E-RESUME-DATA", folder_.path().string(), "the training data is not the data of this run",
                         "the same file as before", {"--run ANOTHER_FOLDER"});
    }
  }

  void train() {
    cpu::set_thread_count(config_.threads);
    DataFiles data{open_place(prepared_.train), {}};
    if (prepared_.validation) data.validation = open_place(*prepared_.validation);
    const TrainingGraph model = build_training_graph(config_, data.facts(), prepared_.record.decisions.micro_batch);
    const Plan plan = rebuild_plan(config_, model, prepared_);
    const Program program = lower(plan);
    verify(program, plan.graph);
    begin_report(plan);

    const Arena arena(plan.arena, arguments_.audit ? kAuditBeyond : Bytes{0});
    report_.arena_base = reinterpret_cast<std::uintptr_t>(arena.base());
    Executor executor(plan.graph, program, arena.base(), plan.threads, plan.decisions.loss_chunks);
    Trainer trainer(config_, model, plan, executor, data);
    std::optional<Audit> audit;
    if (arguments_.audit) {
      audit.emplace(program, plan.graph, arena);
      executor.set_observer(&*audit);
      trainer.before_phase([&](Phase phase) { audit->enter(phase); });
    } else {
      trainer.after_warmup([&] { check_reserve(plan, arena); });
    }
    const std::filesystem::path checkpoint = folder_.checkpoint();
    trainer.load(resumed_ ? &checkpoint : nullptr);
    trainer.progress().data_hash = prepared_.data_hash;
    loop(trainer, plan, data);
    finish(trainer, plan, arena, audit ? &*audit : nullptr);
  }

  void begin_report(const Plan& plan) {
    report_.command = "train";
    report_.describe(config_, plan, prepared_.machine, prepared_.budget);
    report_.data_hash = prepared_.data_hash;
    folder_.write("config.resolved.toml", resolved_toml(config_));
    folder_.write("plan.json", prepared_.plan_text + "\n");
    folder_.open_metrics(resumed_ ? resumed_->updates : 0);
    folder_.write_run(report_.to_json());
    fmt::print(stderr, "{}", plan_summary(json::parse(prepared_.plan_text)));
  }

  // Everything has run once and nothing has been updated: more outside the arena than planned is refused now.
  void check_reserve(const Plan& plan, const Arena& arena) const {
    const Bytes outside = peak_resident() - align_up(arena.size(), kPage);
    const Bytes planned = plan.process - align_up(plan.arena, kPage);
    if (outside <= planned) return;
    throw Error(ErrorKind::environment, ExitCode::does_not_fit, "E-MEM-RESERVE", "process",
                fmt::format("{} lie outside the arena, {} were planned", to_text(outside), to_text(planned)),
                "what `plimsoll machine` measured", {"remove the machine file and let it be measured again"});
  }

  void loop(Trainer& trainer, const Plan& plan, const DataFiles& data) {
    const std::int64_t updates = arguments_.updates.value_or(config_.train.updates);
    ProgressLine line(updates, prepared_.budget.memory.value_or(plan.process));
    catch_signals();
    while (trainer.progress().updates < updates && interrupted == 0) {
      const Metrics metrics = trainer.update();
      folder_.append(metrics);
      line.show(metrics);
      report_.note(metrics);
      const bool last = metrics.update == updates;
      if (data.validation && (last || due(config_.train.evaluate_every, metrics.update))) {
        const EvaluationResult result = trainer.evaluate_now();
        report_.validation = result;
        line.say(fmt::format("update {}  validation loss {:.4f} nats over {} units", metrics.update, result.loss, result.units));
      }
      if (!last && due(config_.train.save_every, metrics.update)) trainer.save_checkpoint_to(folder_.checkpoint());
    }
    report_.status = trainer.progress().updates < updates ? "interrupted" : "done";
  }

  static bool due(std::int64_t every, std::int64_t update) { return every > 0 && update % every == 0; }

  void finish(Trainer& trainer, const Plan& plan, const Arena& arena, Audit* audit) {
    trainer.save_checkpoint_to(folder_.checkpoint());
    trainer.save_weights_to(folder_.weights());
    report_.parameters_hash = trainer.hash_parameters();
    report_.finish(trainer.progress(), arena, audit);
    const bool done = report_.status == "done";
    report_.exit_code = static_cast<int>(done ? ExitCode::ok : ExitCode::interrupted);
    fmt::print(stderr, "planned {}  touched {}  process {} of {}\n", to_text(plan.arena), to_text(report_.measured_arena),
               to_text(report_.process_hwm), to_text(prepared_.budget.memory.value_or(plan.process)));
    fmt::print(stderr, "{} in {}\n", done ? "weights" : "interrupted; continue with --resume",
               done ? folder_.weights().string() : folder_.path().string());
  }

  const TrainArguments& arguments_;
  Config config_;
  RunFolder folder_;
  std::optional<Progress> resumed_;
  Prepared prepared_;
  RunReport report_;
};

}  // namespace

int run_train(const TrainArguments& arguments) {
  const Config config =
      load_config(arguments.config, arguments.sets, {arguments.budgets.memory, arguments.budgets.host_memory, arguments.budgets.disk});
  for (const std::string& note : config.notes) fmt::print(stderr, "note: {}\n", note);
  return TrainCommand(arguments, config).run();
}

}  // namespace plimsoll
