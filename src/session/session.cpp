#include "session/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/child.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/shell.h"
#include "base/text.h"
#include "config/config_keys.h"
#include "config/config_rules.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "formats/file.h"
#include "formats/new_folder.h"
#include "formats/tokenizer_folder.h"
#include "formats/weight_files.h"
#include "models/family.h"
#include "models/gguf.h"
#include "prepare/epochs.h"
#include "prepare/requests.h"
#include "records/best_weights.h"
#include "records/check_room.h"
#include "records/checkpoints.h"
#include "records/run_folder.h"
#include "records/run_report.h"
#include "run/audit.h"
#include "run/place.h"
#include "session/fork.h"
#include "session/resume.h"
#include "train/trainer.h"
#include "weights/manifest.h"

namespace plimsoll {
namespace {

using nlohmann::json;

Error as_error(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known != nullptr ? *known : internal_error("train", error.what());
}

// Checks that the measured and the planned bytes of each phase are equal.
void check_audit(const Plan& plan, const std::vector<PhaseAudit>& measured) {
  const std::string difference = audit_difference(plan.phases, measured);
  if (!difference.empty()) throw audit_error(difference);
}

Error outside_of_plan(std::string message, std::string remedy) {
  return {ErrorKind::environment, ExitCode::does_not_fit,
          "E-MEM-RESERVE",        "process",
          std::move(message),     "the reserve that `plimsoll machine` measured",
          {std::move(remedy)}};
}

// The bytes that this process has written to the disk.
Bytes written_to_disk(const Device& device, const Plan& plan) {
  Bytes written;
  for (std::size_t tier = 1; tier < plan.tiers.size(); ++tier) written += device.use_of(tier).value_or(TierUse{}).wear;
  return written;
}

// Copies the changed configuration of the model into the weights of the run, which have it from here on.
void take_config(const std::filesystem::path& model, const std::filesystem::path& weights) {
  if (is_gguf(model)) return write_gguf_config(GgufFile::open(model), weights, /*replace=*/true);
  copy_files(model, weights, std::array{std::string_view("config.json")}, /*replace=*/true);
}

constexpr Bytes kMostReserved{64 << 20};  // of the disk, for lines

bool due(std::int64_t every, std::int64_t update) { return every > 0 && update % every == 0; }

}  // namespace

Session::Session(Config& config, const SessionRequest& request, RunFolder& folder, std::vector<Consumer*> consumers)
    : config_(config),
      request_(request),
      folder_(folder),
      consumers_(std::move(consumers)),
      remedies_(config, folder),
      watch_(divergence_watch(config)),
      improvement_(config),
      ranks_(request.peers),
      saves_(config, folder, improvement_, ranks_, [this](const Event& event) { emit(event); }) {}

Session::~Session() = default;

void Session::emit(const Event& event) {
  for (Consumer* consumer : consumers_) consumer->see(event);
}

void Session::record(Trainer& trainer, const Event& event) {
  try {
    emit(event);
  } catch (const std::exception& error) {
    if (!ranks_.alone()) {
      if (!unrecorded_) unrecorded_ = as_error(error);
      return;
    }
    try {
      saves_.save(trainer);
    } catch (const std::exception&) {  // from the same disk; the first error is the one to report
    }
    throw;
  }
}

void Session::throw_unrecorded(Trainer& trainer) {
  try {
    saves_.save(trainer);
  } catch (const std::exception&) {  // from the same disk
  }
  share_error(*ranks_.peers(), ranks_.event(), unrecorded_);
}

bool Session::is_stopped() {
  if (ranks_.alone()) stopped_by_ = request_.stopped_by();
  return !stopped_by_.empty();
}

bool Session::agree(Trainer& trainer, Metrics* metrics) {
  if (ranks_.alone()) return false;
  const SessionRanks::State agreed = ranks_.agree({.stopped_by = request_.stopped_by(),
                                                   .saves = metrics != nullptr && saves_.is_due(metrics->update),
                                                   .failed = unrecorded_.has_value(),
                                                   .process_hwm = metrics != nullptr ? metrics->vm_hwm : Bytes{0}});
  if (agreed.failed) throw_unrecorded(trainer);
  stopped_by_ = agreed.stopped_by;
  if (metrics != nullptr) metrics->vm_hwm = agreed.process_hwm;
  return agreed.saves;
}

// Consumers that fail do not replace the first error.
void Session::tell_failure(const Error& error) {
  for (Consumer* consumer : consumers_) {
    try {
      consumer->see(Failed{error, reached_});
    } catch (const std::exception&) {
    }
  }
}

std::optional<Refused> Session::run() {
  if (request_.resumes) {
    resumed_ = find_checkpoint(config_, folder_, {request_.checkpoint, request_.forced});
    for (const std::string& note : resumed_->notes) emit(Said{note});
    reached_ = resumed_->progress;
  }
  if (!request_.from.empty()) parent_ = read_parent(request_.from);
  if (std::optional<Refused> refused = prepare()) return refused;
  if (parent_) check_fork(config_, *parent_, request_.from);
  try {
    train();
  } catch (const std::exception& error) {
    const Error known = as_error(error);
    tell_failure(known);
    throw known;
  }
  emit(Ended{});
  return {};
}

std::optional<Refused> Session::prepare() {
  PrepareOptions options = request_.prepare;
  options.tokens = folder_.tokens();
  options.weights_folder = folder_.weights();
  options.resumes = request_.resumes;
  options.settings = request_.settings;
  std::error_code ignored;
  const std::filesystem::path runs = folder_.lies_in();
  if (!runs.empty() && runs != std::filesystem::current_path(ignored)) options.runs = runs;
  // A fork has the bits of its parent as long as its micro-batches fit the batch.
  if (parent_ && parent_->micro_batch * parent_->accumulation == config_.train.effective_batch) {
    options.micro_batch = config_.train.micro_batch.value_or(parent_->micro_batch);
  }
  if (resumed_) options.micro_batch = config_.train.micro_batch.value_or(resumed_->progress.micro_batch);
  auto prepared = ranks_.prepare(config_, options, request_.first_of_host, [&](const std::string& line) { emit(Said{line}); });
  if (auto* refused = std::get_if<Refused>(&prepared)) return std::move(*refused);
  prepared_ = std::get<Prepared>(std::move(prepared));
  config_ = with_tokens_of(std::move(config_), prepared_.data);  // readers of the weights rely on it
  if (resumed_) check_resumed_data(config_, resumed_->progress, prepared_.data_hash, folder_);
  return {};
}

namespace {

// The time in which the first rank may read parameters of all ranks.
class SharesValues {
 public:
  SharesValues(SessionRanks& ranks, const Executor& executor) : ranks_(ranks) { ranks.share_values(&executor); }
  ~SharesValues() { ranks_.share_values(nullptr); }
  SharesValues(const SharesValues&) = delete;
  SharesValues& operator=(const SharesValues&) = delete;

 private:
  SessionRanks& ranks_;
};

}  // namespace

void Session::train() {
  cpu::set_thread_count(config_.threads);
  const DataFiles& data = prepared_.data;
  TrainingGraph model = build_training_graph(config_, facts_of(config_, prepared_), prepared_.record.decisions.micro_batch);
  Plan plan = rebuild_plan(config_, model, prepared_);
  groups_.emplace(group_watch(plan.graph, model.training, model.underflow, warmup_updates(config_)));
  model.graph = {};  // the plan has its own graph
  const Program program = lower(plan);
  verify(program, plan.graph);
  plan.forget_analysis();
  const WeightLayout layout = find_layout(plan.graph);
  layout_text_ = layout_text(plan.graph, layout);
  RunRoom room = room_of_run(plan.graph, config_, layout);
  room.again = has_weights(folder_.weights());
  if (is_there(folder_.diverged())) room.diverged = room.checkpoint;
  if (resumed_ && resumed_->goes_back) room.until = resumed_->progress.updates;
  ranks_.reserve(program, static_cast<double>(config_.parallel.fail_after));
  ranks_.on_first([&] { check_room_for(plan, room); });
  const std::optional<ParentRun> parent =
      parent_ ? std::optional(ParentRun{run_of_checkpoint(request_.from), parent_->updates}) : std::nullopt;
  const std::string validation_hash = data.validation ? data.validation->content_hash() : "";
  emit(Planned{config_, plan, prepared_.machine, prepared_.budget, prepared_.data_hash, validation_hash, *data.train,
               prepared_.plan_text, parent});
  const bool new_run = !resumed_ && !parent_;
  if (new_run) begin();
  ranks_.on_first([&] { check_file_limit(folder_, room); });

  const CudaPace unchecked = request_.audit ? CudaPace::kernels : CudaPace::graphs;
  PlaceRequest where = place_request(config_);
  where.pace = config_.gpu_graphs ? unchecked : CudaPace::checked;
  if (request_.audit) where.beyond = kAuditBeyond;
  if (!model.answers.empty()) answers_.emplace(config_, std::exchange(prepared_.prompts, {}), model, plan.graph);
  Place place(program, plan, where);
  emit(Placed{place.base()});
  Executor executor(plan.graph, program, place.device(), plan.threads, plan.decisions.loss_chunks, ranks_.peers());
  require_algorithms(prepared_.algorithms, executor.algorithms());
  const SharesValues shares(ranks_, executor);
  const DataSources sources(config_, data);
  Trainer trainer(config_, model, plan, executor, sources.data());
  std::optional<Audit> audit;
  if (request_.audit) {
    audit.emplace(program, plan.graph, place.device(), place.mapped());
    executor.add_observer(*audit);
    trainer.before_phase([&](Phase phase) { audit->enter(phase); });
  } else {
    trainer.after_warmup([&] { check_reserve(plan, place.device()); });
  }
  make_wrong(trainer);
  try {
    ranks_.patiently([&] {
      ranks_.together([&] { trainer.load(resumed_ ? &resumed_->path : parent_ ? &request_.from : nullptr); });
    });
  } catch (Error& error) {
    if (resumed_) offer_older(error, resumed_->path, folder_, remedies_);
    if (parent_) offer_older_parent(error, request_.from);
    throw;
  }
  trainer.progress().config_hash = config_hash(config_);
  trainer.progress().optimizer = optimizer_name(config_.optimizer.kind);
  if (parent_) trainer.fork(/*same_order=*/parent_->data_hash == prepared_.data_hash && parent_->seed == config_.seed);
  trainer.keep_layout(layout);
  if (!new_run) begin();  // the folder stays as it is until the checkpoint has been read
  if (resumed_ && resumed_->model_changed) ranks_.on_first([&] { take_config(config_.model.init, folder_.weights()); });
  if (resumed_ && resumed_->path != folder_.diverged()) saves_.has(resumed_->progress.updates);
  trainer.progress().data_hash = prepared_.data_hash;
  // A checkpoint knows no ranks.
  if (!ranks_.alone() && !prepared_.ragged) {
    trainer.progress().accumulation = config_.train.effective_batch / trainer.progress().micro_batch;
  }
  emit(Loaded{written_to_disk(place.device(), plan)});
  try {
    loop(trainer, plan, place.device(), data.validation != nullptr);
    finish(trainer, plan, place.device(), audit ? &*audit : nullptr);
  } catch (const Error& error) {
    if (audit && (error.where == "audit" || error.where == "check")) throw audit_error(error.message);
    throw;
  }
  if (audit) check_audit(plan, audit->phases());
}

// The run keeps the layout, because the original folder may be gone. Runs of earlier versions have none.
WeightLayout Session::find_layout(const Graph& graph) const {
  if (resumed_ && !config_.adapter.active())
    return is_there(folder_.stored()) ? read_layout(graph, folder_.stored()) : WeightLayout{};
  const ModelSettings& model = config_.model;
  if (config_.adapter.active()) return {};  // an adapter is saved alone
  return model.init.empty() ? WeightLayout{} : layout_of(graph, model.config, model.init);
}

// Called before the run begins, so that a refused run leaves no files.
void Session::check_room_for(const Plan& plan, const RunRoom& room) const {
  std::error_code error;
  const std::vector<std::filesystem::path> elsewhere{std::filesystem::current_path(error) / "runs",
                                                     std::filesystem::temp_directory_path(error)};
  check_room(folder_, room, plan.stored[disk_of(prepared_.machine)],
             config_.memory.disk ? config_.memory.disk->folder : std::filesystem::path(), elsewhere);
}

void Session::begin() {
  ranks_.on_first([&] {
    const std::int64_t reached = resumed_ ? resumed_->progress.updates : 0;
    if (resumed_ && resumed_->goes_back) {
      const std::filesystem::path aside = folder_.set_aside(reached);
      emit(Said{fmt::format("note: the run goes back to update {}; its later lines and checkpoints are in {}", reached,
                            aside.string())});
    }
    emit(Begins{config_, request_.settings, prepared_.plan_text, layout_text_});
    emit(Continues{reached});
    folder_.reserve_lines(std::min(metrics_bytes(request_.updates - reached), kMostReserved));
  });
  std::string().swap(prepared_.plan_text);  // it grows with the graph, and the run has it in its folder
  recall();
  ranks_.on_first([&] { emit(Begun{reached_, improvement_.best()}); });
}

void Session::recall() {
  const std::int64_t updates = resumed_ ? resumed_->progress.updates : 0;
  folder_.read_metrics([&](const Metrics& metrics) {
    if (metrics.update <= updates) watch_.see(metrics.update, metrics.loss, metrics.grad_norm);
  });
  folder_.read_evaluations([&](const Evaluation& evaluation) {
    if (evaluation.update > updates) return;
    validation_.see(evaluation.update, evaluation.loss);
    improvement_.see(evaluation);
  });
  folder_.read_events([&](const json& event) {
    if (!event.contains("names") || !event["names"].is_array()) return;
    for (const json& name : event["names"]) {
      if (name.is_string()) groups_->was_told(event.value("event", ""), name.get<std::string>());
    }
  });
}

// Checked after everything has run once and before the first update: bytes outside the arena beyond the plan are refused.
void Session::check_reserve(const Plan& plan, const Device& device) const {
  if (const std::optional<Bytes> used = device.used(); used && *used > plan.process) {
    throw outside_of_plan(fmt::format("the driver counts {} of the device for this process, {} were planned", to_text(*used),
                                      to_text(plan.process)),
                          "nvidia-smi, to see the owners, if this runs in a container");
  }
  const bool here = config_.device != DeviceChoice::cuda;
  const Bytes arenas = (here ? align_up(plan.arena, kPage) : Bytes{0}) +
                       (plan.host.n > 0 ? plan.stored[tier_of(plan.tiers, TierKind::host)] : Bytes{0});
  const Bytes outside = peak_resident() - arenas, planned = (here ? plan.process : Bytes{0}) + plan.host - arenas;
  if (outside <= planned) return;
  throw outside_of_plan(fmt::format("{} lie outside the arenas, {} were planned", to_text(outside), to_text(planned)),
                        "remove the machine file; the next command measures the machine again");
}

void Session::make_wrong(Trainer& trainer) {
  if (request_.fault.empty()) return;
  emit(Said{fmt::format("note: this training has a deliberate fault: {}", request_.fault)});
  trainer.make_wrong(parse_faults(request_.fault));
  emit(MadeWrong{request_.fault});
}

void Session::loop(Trainer& trainer, const Plan& plan, const Device& device, bool validation) {
  const std::int64_t updates = request_.updates;
  const std::int64_t interval = validation ? evaluation_interval(config_) : 0;
  emit(LoopBegins{updates, promised(plan), validation});
  trainer.scale_rate(improvement_.rate_factor());
  if (resumed_) saves_.take_up_best(trainer, resumed_->progress.micro_batch);
  trainer.on_overflow([&](const Overflow& overflow) { record(trainer, Overflowed{overflow}); });
  saves_.begin();
  catch_up(trainer, interval);
  agree(trainer, nullptr);
  while (trainer.progress().updates < updates && !improvement_.stops() && !is_stopped()) {
    Metrics metrics = next_update(trainer);
    const DivergenceWatch::Seen seen = watch_.see(metrics.update, metrics.loss, metrics.grad_norm);
    metrics.spike = seen.spike;
    const bool saves = agree(trainer, &metrics);
    record(trainer, Updated{metrics, trainer.progress(), written_to_disk(device, plan)});
    warn_of_groups(trainer, metrics.loss_scale);
    warn(seen, trainer);
    follow_folder();  // a folder that is gone ends the run
    if (metrics.update == updates) break;
    if (due(interval, metrics.update)) evaluate(trainer);
    if (ranks_.alone() ? saves_.is_due(metrics.update) : saves) saves_.try_to_save(trainer);
  }
  if (!ranks_.alone() && ranks_.any(unrecorded_.has_value())) throw_unrecorded(trainer);
  const bool done = trainer.progress().updates >= updates || improvement_.stops();
  if (trainer.progress().updates == 0 && !done) throw stopped_while_planning();
  saves_.save(trainer);
  if (done && validation && evaluated_at_ != trainer.progress().updates) evaluate(trainer);
  emit(LoopEnded{});
}

// An evaluation or its answers may have failed, or been cut off, after the checkpoint of their update. A run that ends here
// evaluates again.
void Session::catch_up(Trainer& trainer, std::int64_t interval) {
  const std::int64_t reached = trainer.progress().updates;
  if (reached == 0 || reached >= request_.updates) return;
  if (improvement_.last_update() != reached) {
    if (due(interval, reached)) evaluate(trainer);
  } else if (folder_.answered() != reached && !improvement_.stops()) {
    tell(answer(trainer));
  }
}

void Session::follow_folder() {
  if (!ranks_.first()) return;
  try {
    saves_.follow_folder();
  } catch (const Error& error) {
    if (ranks_.alone()) throw;
    if (!unrecorded_) unrecorded_ = error;
  }
}

// If no loss scale helps, the weights are still finite: they are saved, and the checkpoint stays as it was.
Metrics Session::next_update(Trainer& trainer) {
  try {
    const Metrics metrics = trainer.update();
    reached_ = trainer.progress();
    return metrics;
  } catch (Error& error) {
    if (trainer.lost_data() && error.kind != ErrorKind::internal) keep_learned(trainer, error);
    if (error.code == "E-DIVERGED") error.remedies = {remedies_.slower(trainer.progress().updates)};
    if (error.code != "E-SCALE-FLOOR") throw;
    error.remedies = {remedies_.begin_beside({{"precision.compute", "bf16"}}), remedies_.slower(trainer.progress().updates)};
    error.expected += saves_.keep_diverged(trainer);
    throw;
  }
}

// An error of the data must not cost the progress: the checkpoint comes first. Before the first update there is none.
void Session::keep_learned(Trainer& trainer, Error& error) {
  // Ranks save together: another error than one of the data of an update is that of one rank.
  if (trainer.progress().updates > 0 && (ranks_.alone() || trainer.lost_data())) {
    try {
      saves_.save(trainer);
    } catch (const std::exception&) {  // the first error is the one to report
      return;
    }
  }
  // Repaired data have another hash.
  if (error.code != "E-DATA-CHANGED" && error.code != "E-IO-READ") return;
  error.remedies = {trainer.progress().updates > 0 ? remedies_.resume() : remedies_.again()};
  error.remedies.front().note = fmt::format("after {} is restored to its state at the start of the run", error.where);
}

void Session::warn_of_groups(Trainer& trainer, std::optional<double> loss_scale) {
  const std::int64_t update = trainer.progress().updates;
  std::vector<GroupWarning> warnings = groups_->see(update, trainer.report());
  if (loss_scale) {
    std::ranges::move(groups_->see_small(trainer.small_gradients(), *loss_scale), std::back_inserter(warnings));
  }
  for (const GroupWarning& warning : warnings) record(trainer, Warned{update, warning});
}

// Warnings leave the checkpoint as it was.
void Session::warn(const DivergenceWatch::Seen& seen, Trainer& trainer) {
  if (seen.unstable && !std::exchange(told_unstable_, true)) emit(Unstable{});
  if (!seen.divergence || told_divergence_) return;
  if (config_.train.on_divergence == OnDivergence::proceed) {
    told_divergence_ = true;
    emit(Diverging{*seen.divergence});
    return;
  }
  const std::string kept = saves_.keep_diverged(trainer);
  throw Error(ErrorKind::user, ExitCode::diverged, "E-DIVERGED", fmt::format("update {}", trainer.progress().updates),
              fmt::format("{}: {}", seen.divergence->reason, seen.divergence->text), "a loss that falls" + kept,
              {remedies_.slower(trainer.progress().updates - DivergenceWatch::kMostInARow), remedies_.go_on()});
}

void Session::evaluate(Trainer& trainer) {
  try {
    const double start = seconds_now();
    const EvaluationResult result = trainer.evaluate_now([&](std::int64_t done, std::int64_t samples) {
      emit(Evaluating{done, samples});
    });
    const std::vector<Answer> answers = answer(trainer);
    const Evaluation evaluation{
        trainer.progress().updates, trainer.progress().samples, result.loss, result.units, seconds_now() - start, result.accuracy,
        utc_seconds_now()};
    evaluated_at_ = evaluation.update;
    const double factor = improvement_.rate_factor();
    const bool better = improvement_.see(evaluation);
    emit(Evaluated{evaluation, improvement_.best()});
    tell(answers);
    if (better) saves_.save_best(trainer);
    saves_.keep_ranked(trainer);
    trainer.scale_rate(improvement_.rate_factor());
    if (improvement_.rate_factor() < factor) emit(RateFell{evaluation.update, trainer.learning_rate()});
    if (const auto rise = validation_.see(evaluation.update, evaluation.loss)) emit(ValidationRises{evaluation.update, *rise});
  } catch (Error& error) {
    if (error.kind != ErrorKind::internal) keep_learned(trainer, error);
    throw;
  }
}

std::vector<Answer> Session::answer(Trainer& trainer) const {
  if (!answers_) return {};
  return answers_->answer(trainer, [&] { return !request_.stopped_by().empty(); });
}

void Session::tell(const std::vector<Answer>& answers) {
  if (!answers.empty()) emit(Answered{answers});
}

void Session::finish(Trainer& trainer, const Plan& plan, const Device& device, Audit* audit) {
  const bool all = trainer.progress().updates >= request_.updates, no_improvement = !all && improvement_.stops();
  const std::string stopped_by = all || no_improvement ? "" : stopped_by_;
  std::string hash;
  ranks_.on_first([&] {
    save_weights(trainer);
    hash = trainer.hash_parameters();
  });
  const Bytes saved = weights_in(folder_.weights()) + weights_in(folder_.averages());
  const std::vector<RankReport> ranks = ranks_.reports(device.resident());
  reached_ = trainer.progress();
  const double peak = config_.optimizer.learning_rate, share = peak > 0 ? trainer.learning_rate() / peak : 0;
  emit(Finished{plan, trainer.progress(), device, audit, hash, stopped_by, no_improvement, share, promised(plan), saved, ranks});
}

void Session::save_weights(Trainer& trainer) {
  saves_.follow_folder();
  trainer.save_weights_to(folder_.weights());
  // The averages have the same companion files as the weights.
  if (config_.optimizer.ema_half_life) trainer.save_weights_to(folder_.averages(), {true, folder_.weights()});
}

// The promised bytes of the process, without the memory of a GPU.
Bytes Session::promised(const Plan& plan) const {
  const Bytes host = plan.host.n > 0 ? prepared_.budget.host_memory.value_or(plan.host) : Bytes{0};
  if (config_.device == DeviceChoice::cuda) return host;
  return prepared_.budget.memory.value_or(plan.process) + host;
}

}  // namespace plimsoll
