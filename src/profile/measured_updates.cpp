#include "profile/measured_updates.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "prepare/epochs.h"
#include "prepare/requests.h"
#include "profile/update_times.h"
#include "run/place.h"
#include "session/run_answers.h"
#include "train/trainer.h"

namespace plimsoll {
namespace {

Error stopped_by_signal() {
  return {ErrorKind::user, ExitCode::interrupted, "E-INTERRUPTED", "profile", "it was interrupted; nothing is kept"};
}

// The budget that the process of the kernels' host has.
void check_budget(const Plan& plan, const Budget& budget) {
  const bool host = plan.host.n > 0;
  const Bytes needed = host ? plan.host : plan.process;
  const std::optional<Bytes> given = host ? budget.host_memory : budget.memory;
  if (!given || needed <= *given) return;
  throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "profile",
              fmt::format("plan and timer need {}, the budget is {}", to_text(needed), to_text(*given)),
              "a budget with room for the timer of instructions",
              {Change(host ? "memory.host_memory" : "memory.budget", align_up(needed, kMiB).n)});
}

// One update after the other.
class Measurement {
 public:
  Measurement(Trainer& trainer, InstructionTimer& timer, const MeasureRequest& request)
      : trainer_(trainer), timer_(timer), request_(request) {}

  void run(MeasuredUpdates& measured) {
    measured.updates.reserve(static_cast<std::size_t>(request_.updates + 1));
    measured.updates.push_back(next());
    timer_.clear();
    const Contention contention;
    for (std::int64_t i = 1; i <= request_.updates; ++i) measured.updates.push_back(next());
    measured.sharing = contention.sharing();
  }

  // Writes the times of one more update: writing takes time in it.
  void write_times() {
    UpdateTimesFile times(request_.times);
    timer_.after_section(
        [&](Section section, bool window_start, double begin) { times.add(timer_, section, window_start, begin); });
    trainer_.on_reading([&](const Prefetcher::Reading& reading) { times.add(reading); });
    const double begin = seconds_now();
    const Metrics metrics = next();
    times.finish(metrics.update, begin, begin + metrics.seconds);
    timer_.after_section({});
    trainer_.on_reading({});
  }

 private:
  Metrics next() {
    if (request_.stopped && request_.stopped()) throw stopped_by_signal();
    return trainer_.update();
  }

  Trainer& trainer_;
  InstructionTimer& timer_;
  const MeasureRequest& request_;
};

}  // namespace

double MeasuredUpdates::update_seconds() const {
  double sum = 0;
  for (std::size_t i = 1; i < updates.size(); ++i) sum += updates[i].seconds;
  return sum / static_cast<double>(updates.size() - 1);
}

double MeasuredUpdates::wait_seconds() const {
  double sum = 0;
  for (std::size_t i = 1; i < updates.size(); ++i) sum += updates[i].wait_seconds.value_or(0);
  return sum / static_cast<double>(updates.size() - 1);
}

void reserve_timer(Plan& plan, Bytes timer) {
  const bool host = plan.host.n > 0;
  std::vector<ReserveItem>& items = host ? plan.host_reserve : plan.reserve;
  Bytes shared;
  for (ReserveItem& item : items) {
    if (item.name != kReadBackItem) continue;
    shared = std::min(item.bytes, timer);
    item.bytes -= shared;
  }
  items.push_back({"timer of instructions", timer, "counted"});
  (host ? plan.host : plan.process) += timer - shared;
}

MeasuredUpdates measure_updates(const Config& config, const Prepared& prepared, MeasureRequest request) {
  cpu::set_thread_count(config.threads);
  const DataFiles& data = prepared.data;
  TrainingGraph model = build_training_graph(config, facts_of(config, prepared), prepared.record.decisions.micro_batch);
  Plan plan = rebuild_plan(config, model, prepared);
  model.graph = {};
  const Program program = lower(plan);
  plan.forget_analysis();
  MeasuredUpdates measured;
  measured.timer = InstructionTimer::bytes_for(program);
  reserve_timer(plan, measured.timer);
  check_budget(plan, prepared.budget);
  measured.reserve = plan.host.n > 0 ? plan.host_reserve : plan.reserve;
  measured.planned = (config.device == DeviceChoice::cuda ? Bytes{} : plan.process) + plan.host;

  std::optional<RunAnswers> answers;
  if (!model.answers.empty()) answers.emplace(config, std::move(request.prompts), model, plan.graph);
  PlaceRequest where = place_request(config);
  if (request.audit) where.beyond = kAuditBeyond;
  Place place(program, plan, where);
  Executor executor(plan.graph, program, place.device(), plan.threads, plan.decisions.loss_chunks);
  require_algorithms(prepared.algorithms, executor.algorithms());
  const DataSources sources(config, data);
  Trainer trainer(config, model, plan, executor, sources.data());
  std::optional<Audit> audit;
  if (request.audit) {
    audit.emplace(program, plan.graph, place.device(), place.mapped());
    executor.add_observer(*audit);
    trainer.before_phase([&](Phase phase) { audit->enter(phase); });
  }
  trainer.load(request.checkpoint.empty() ? nullptr : &request.checkpoint);
  trainer.scale_rate(request.rate_factor);
  {
    InstructionTimer timer(program, plan.graph, place.device());
    const Executor::Watch watch(executor, timer);
    Measurement measurement(trainer, timer, request);
    measurement.run(measured);
    for (const Section section : plan.graph.sections()) measured.runs.push_back(timer.runs(section));
    measured.seconds = seconds_by_kind(plan.graph, program, timer, prepared.machine.rates);
    if (!request.times.empty()) measurement.write_times();
  }
  if (data.validation) {
    const double start = seconds_now();
    trainer.evaluate_now();
    const auto stops = [&] { return request.stopped && request.stopped(); };
    if (answers) answers->answer(trainer, stops);
    if (stops()) throw stopped_by_signal();
    measured.evaluate_seconds = seconds_now() - start;
  }
  const double start = seconds_now();
  trainer.save_checkpoint_to(request.folder / "checkpoint");
  measured.save_seconds = seconds_now() - start;
  if (audit) {
    measured.audited = audit->phases();
    measured.audited_at = audited_instructions(program, measured.audited);
  }
  measured.process = peak_resident();
  return measured;
}

}  // namespace plimsoll
