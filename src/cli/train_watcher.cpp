#include "cli/train_watcher.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/visit.h"
#include "cli/plan/plan_text.h"
#include "cli/say.h"
#include "cli/short_text.h"
#include "cli/signals.h"
#include "cli/spelling.h"
#include "records/best_weights.h"

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

void TrainWatcher::plan(const Planned& planned) {
  patience_.reset();
  announce_stops();
  const nlohmann::json plan = nlohmann::json::parse(planned.plan_text);
  say_text(plan_summary(plan));
  remaining_ = planned_time(planned.config, plan);
  if (plan.contains("words")) rate_ = plan.at("words").at("rate");
}

void TrainWatcher::show(const Updated& updated) {
  units_ += updated.metrics.units;
  positions_ += updated.metrics.positions;
  line_->show(updated.metrics);
}

void TrainWatcher::show(const Evaluation& evaluation) {
  evaluating_.reset();
  paused_seconds_ += evaluation.seconds;
  if (line_) line_->evaluated(evaluation.seconds);
  say(fmt::format("update {}  validation loss {:.4f} nats over {} units{}", evaluation.update, evaluation.loss, evaluation.units,
                  accuracy_text(evaluation.accuracy)));
}

// The end of each prompt tells most about it.
void TrainWatcher::show(std::span<const Answer> answers) {
  constexpr std::size_t kPrompt = 40, kText = 90;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Answer& each = answers[i];
    say(fmt::format("  sample {}  {} -> {}\n            expected: {}", i + 1, last_words(each.prompt, kPrompt),
                    first_words(each.answer, kText), first_words(each.expected, kText)));
  }
}

void TrainWatcher::summarise(const Finished& finished) const {
  const Progress& progress = finished.progress;
  const bool done = finished.stopped_by.empty();
  const double rate = progress.seconds > 0 ? static_cast<double>(progress.units) / progress.seconds : 0;
  std::string text = fmt::format("{}: {} updates, {} samples in {}", done ? "done" : "interrupted", progress.updates,
                                 progress.samples, duration_text(progress.seconds));
  if (paused_seconds_ > 0.01 * progress.seconds)
    text += fmt::format(", and {} to evaluate and save", duration_text(paused_seconds_));
  if (progress.updates > 0) {
    const double all = units_ > 0 ? rate * static_cast<double>(positions_) / static_cast<double>(units_) : rate;
    text += fmt::format(" ({}), loss {:.4f}", trained_rate_text(rate, all, rate_), progress.loss);
  }
  if (report_.validation)
    text += fmt::format(", validation {:.4f}{}", report_.validation->loss, accuracy_text(report_.validation->accuracy));
  say_line(fmt::format("{}\nmemory: process {} of {}; arena planned {}, touched {}", text, to_text(report_.process_hwm),
                       to_text(finished.promised), to_text(align_up(finished.plan.arena, kPage)),
                       to_text(align_up(report_.measured_arena, kPage))));
  if (finished.no_improvement) {
    say_line(fmt::format("stopped early: no improvement for stop.patience; the learning rate was at {:.0f} % of its peak",
                         100 * finished.rate_share));
  }
  if (report_.best) say_line(fmt::format("best: {}", best_summary(*report_.best)));
  if (done) {
    say_line(fmt::format("weights: {}\ntry: {}", commands_.weights(), commands_.use()));
  } else {
    say_line(fmt::format("continue: {}", text_of(commands_.resume())));
  }
}

void TrainWatcher::see(const Event& event) {
  match(
      event, [&](const Said& said) { say(std::string(said.text)); }, [&](const Planned& planned) { plan(planned); },
      [&](const LoopBegins& begins) {
        remaining_.updates = begins.updates;
        remaining_.evaluates = begins.evaluates;
        line_.emplace(remaining_, begins.promised, rate_);
      },
      [&](const Updated& updated) { show(updated); }, [&](const Overflowed& overflowed) { show(overflowed.overflow); },
      [&](const Warned& warned) {
        say(fmt::format("note: update {}: {}: {}", warned.update, warned.warning.reason, warned.warning.text));
      },
      [&](const Unstable&) {
        say("note: UNSTABLE: more than five spikes of loss or gradient norm within 1,000 updates; metrics.jsonl marks them");
      },
      [&](const Diverging& diverging) {
        say(fmt::format("note: {}: {}", diverging.divergence.reason, diverging.divergence.text));
      },
      [&](const ValidationRises& rises) {
        say(fmt::format(
            "note: update {}: VALIDATION_RISES: the validation loss rose in {} evaluations in a row, to {:.4f}; the best "
            "was {:.4f} at update {}. The model learns its data by heart: fewer epochs, more data or a lower rate help",
            rises.update, ValidationWatch::kRising, rises.rise.loss, rises.rise.best_loss, rises.rise.best_update));
      },
      [&](const Evaluating& evaluating) {
        if (!evaluating_) evaluating_.emplace();
        evaluating_->show(evaluating.done, evaluating.samples, [&](const std::string& text) { say(text); });
      },
      [&](const Evaluated& evaluated) { show(evaluated.evaluation); }, [&](const Answered& answered) { show(answered.answers); },
      [&](const RateFell& fell) {
        say(fmt::format("update {}: the validation loss is on a plateau: learning rate {:.2e}", fell.update, fell.rate));
      },
      [&](const NotSaved& not_saved) {
        say(fmt::format("note: update {}: {} could not be saved ({}: {}); the training goes on", not_saved.update, not_saved.what,
                        not_saved.error.where, not_saved.error.message));
      },
      [&](const Saved& saved) {
        paused_seconds_ += saved.seconds;
        if (line_) line_->saved(saved.seconds);
      },
      [&](const LoopEnded&) { line_.reset(); }, [&](const Finished& finished) { summarise(finished); },
      [&](const Failed&) { line_.reset(); }, [](const auto&) {});
}

}  // namespace plimsoll
