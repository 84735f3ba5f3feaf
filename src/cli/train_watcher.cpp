#include "cli/train_watcher.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/visit.h"
#include "cli/plan/plan_text.h"
#include "cli/say.h"

namespace plimsoll {

void TrainWatcher::say(const std::string& text) {
  if (line_) {
    line_->say(text);
  } else {
    say_line(text);
  }
}

void TrainWatcher::show(const Overflow& overflow) {
  say(fmt::format("note: update {}: gradients overflow with a loss scale of {:g}; {}", overflow.update, overflow.scale,
                  overflow.skipped ? "its samples are left out (events.jsonl)" : "again with half of it"));
}

void TrainWatcher::show(const Evaluation& evaluation) {
  evaluating_.reset();
  say(fmt::format("update {}  validation loss {:.4f} nats over {} units", evaluation.update, evaluation.loss, evaluation.units));
}

void TrainWatcher::summarise(const Finished& finished) const {
  const Progress& progress = finished.progress;
  const bool done = finished.stopped_by.empty();
  const double rate = progress.seconds > 0 ? static_cast<double>(progress.units) / progress.seconds : 0;
  std::string text = fmt::format("{}: {} updates, {} samples in {}", done ? "done" : "interrupted", progress.updates,
                                 progress.samples, duration_text(progress.seconds));
  if (progress.updates > 0) text += fmt::format(" ({} tok/s), loss {:.4f}", rate_text(rate), progress.loss);
  if (report_.validation) text += fmt::format(", validation {:.4f}", report_.validation->loss);
  say_line(fmt::format("{}\nmemory: process {} of {}; arena planned {}, touched {}", text, to_text(report_.process_hwm),
                       to_text(finished.promised), to_text(align_up(finished.plan.arena, kPage)),
                       to_text(align_up(report_.measured_arena, kPage))));
  if (done) {
    say_line(fmt::format("weights: {}\ntry: {}", commands_.weights(), commands_.use()));
  } else {
    say_line(fmt::format("continue: {}", commands_.resume()));
  }
}

void TrainWatcher::see(const Event& event) {
  match(
      event, [&](const Said& said) { say(std::string(said.text)); },
      [&](const Planned& planned) { say_text(plan_summary(nlohmann::json::parse(planned.plan_text))); },
      [&](const LoopBegins& begins) { line_.emplace(begins.updates, begins.promised); },
      [&](const Updated& updated) { line_->show(updated.metrics); },
      [&](const Overflowed& overflowed) { show(overflowed.overflow); },
      [&](const Warned& warned) {
        say(fmt::format("note: update {}: {}: {}", warned.update, warned.warning.reason, warned.warning.text));
      },
      [&](const Unstable&) {
        say("note: UNSTABLE: more than five spikes of loss or gradient norm within 1,000 updates; metrics.jsonl marks them");
      },
      [&](const Diverging& diverging) {
        say(fmt::format("note: {}: {}", diverging.divergence.reason, diverging.divergence.text));
      },
      [&](const Evaluating& evaluating) {
        if (!evaluating_) evaluating_.emplace();
        evaluating_->show(evaluating.done, evaluating.samples, [&](const std::string& text) { say(text); });
      },
      [&](const Evaluated& evaluated) { show(evaluated.evaluation); }, [&](const LoopEnded&) { line_.reset(); },
      [&](const Finished& finished) { summarise(finished); }, [&](const Failed&) { line_.reset(); }, [](const auto&) {});
}

}  // namespace plimsoll
