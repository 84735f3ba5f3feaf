#include "cli/json_log.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/visit.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "records/best_weights.h"

namespace plimsoll {
namespace {

using nlohmann::json;

void log(const char* event, json object) {
  object["event"] = event;
  log_object(object);
}

json finite(double value) { return std::isfinite(value) ? json(value) : json(); }

}  // namespace

void JsonLog::plan(const Planned& planned) {
  announce_stops();
  const json plan = json::parse(planned.plan_text);
  remaining_ = planned_time(planned.config, plan);
  log("planned", {{"plan_hash", planned.plan.plan_hash},
                  {"process_bytes", planned.plan.process.n},
                  {"arena_bytes", planned.plan.arena.n},
                  {"update_seconds", plan.at("predicted").at("update_seconds")},
                  {"micro_batch", planned.plan.decisions.micro_batch},
                  {"accumulation", planned.plan.decisions.accumulation}});
}

void JsonLog::progress(const Metrics& metrics) {
  constexpr double kSmoothing = 0.9;
  mean_seconds_ = mean_seconds_ == 0 ? metrics.seconds : kSmoothing * mean_seconds_ + (1 - kSmoothing) * metrics.seconds;
  if (!pace_.due(metrics.update, remaining_.updates)) return;
  const auto rate = [&](std::int64_t tokens) { return mean_seconds_ > 0 ? static_cast<double>(tokens) / mean_seconds_ : 0; };
  log("progress", {{"update", metrics.update},
                   {"updates", remaining_.updates},
                   {"samples", metrics.samples},
                   {"loss", finite(metrics.loss)},
                   {"grad_norm", finite(metrics.grad_norm)},
                   {"learning_rate", metrics.learning_rate},
                   {"tokens_per_second", rate(metrics.units)},
                   {"all_tokens_per_second", rate(metrics.positions)},
                   {"wait_seconds", metrics.wait_seconds.value_or(0)},
                   {"vm_hwm_bytes", metrics.vm_hwm.n},
                   {"seconds_left", remaining_.after(metrics.update, mean_seconds_)}});
}

void JsonLog::finish(const Finished& finished) const {
  log("finished", {{"status", report_.status},
                   {"exit_code", report_.exit_code},
                   {"updates", finished.progress.updates},
                   {"samples", finished.progress.samples},
                   {"seconds", finished.progress.seconds},
                   {"loss", finite(finished.progress.loss)},
                   {"validation_loss", report_.validation ? finite(report_.validation->loss) : json()},
                   {"best", report_.best ? to_json(*report_.best) : json()},
                   {"process_bytes", report_.process_hwm.n},
                   {"stopped_by", finished.stopped_by.empty() ? json() : json(finished.stopped_by)}});
}

void JsonLog::see(const Event& event) {
  match(
      event, [](const Said& said) { say_line(said.text); }, [&](const Planned& planned) { plan(planned); },
      [&](const Begun& begun) {
        log("begun", {{"run", folder_.string()}, {"updates", begun.reached.updates}, {"id", report_.id}});
      },
      [&](const LoopBegins& begins) { remaining_.updates = begins.updates, remaining_.evaluates = begins.evaluates; },
      [&](const Updated& updated) { progress(updated.metrics); },
      [](const Overflowed& overflowed) {
        const Overflow& overflow = overflowed.overflow;
        log(overflow.skipped ? "skipped" : "overflow", {{"update", overflow.update}, {"loss_scale", overflow.scale}});
      },
      [](const Warned& warned) {
        const GroupWarning& warning = warned.warning;
        log(warning.reason.c_str(), {{"update", warned.update}, {"names", warning.names}, {"text", warning.text}});
      },
      [](const Unstable&) { log("UNSTABLE", json::object()); },
      [](const Diverging& diverging) {
        log(diverging.divergence.reason, {{"text", diverging.divergence.text}});
      },
      [](const ValidationRises& rises) {
        log("VALIDATION_RISES", {{"update", rises.update},
                                 {"loss", rises.rise.loss},
                                 {"best_update", rises.rise.best_update},
                                 {"best_loss", rises.rise.best_loss}});
      },
      [&](const Evaluated& evaluated) {
        json object = to_json(evaluated.evaluation);
        object["loss"] = finite(evaluated.evaluation.loss);
        object["seconds"] = evaluated.evaluation.seconds;
        remaining_.evaluation_seconds = evaluated.evaluation.seconds;
        log("evaluation", std::move(object));
      },
      [](const Answered& answered) {
        for (const Answer& each : answered.answers) {
          log("sample", {{"update", each.update}, {"prompt", each.prompt}, {"answer", each.answer}, {"expected", each.expected}});
        }
      },
      [](const BestSaved& saved) {
        log("best_saved", {{"update", saved.best.update}, {"bytes", saved.written.n}});
      },
      [](const RateFell& fell) {
        log("PLATEAU", {{"update", fell.update}, {"learning_rate", fell.rate}});
      },
      [](const NotSaved& not_saved) {
        log("NOT_SAVED", {{"update", not_saved.update},
                          {"what", not_saved.what},
                          {"code", not_saved.error.code},
                          {"message", not_saved.error.message}});
      },
      [&](const Saved& saved) {
        remaining_.save_seconds = saved.seconds;
        log("saved", {{"update", saved.updates}, {"bytes", saved.written.n}, {"seconds", saved.seconds}});
      },
      [&](const Finished& finished) { finish(finished); }, [](const auto&) {});
}

}  // namespace plimsoll
