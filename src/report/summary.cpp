#include "report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/shell.h"
#include "base/text.h"
#include "report/html.h"

namespace plimsoll {
namespace {

bool has_diverged(const Run& run) { return run.error_code == "E-DIVERGED"; }

// What the validation losses after the best one do; empty if there are none.
std::string since_best(const ReportedRun& reported) {
  const auto& all = reported.history.evaluations;
  const Evaluation& best = *reported.run.best;
  int after = 0, above = 0;
  double last = best.loss;
  for (const EvaluatedThen& each : all) {
    if (each.evaluation.update <= best.update) continue;
    ++after;
    if (each.evaluation.loss > best.loss) ++above;
    last = each.evaluation.loss;
  }
  if (after == 0) return all.size() > 2 ? "still falling at the end" : "";
  if (above < after) return "";
  const double more = (last - best.loss) / std::max(std::abs(best.loss), 1e-12);
  if (more > 0.01 || (after >= 3 && more > 0.003)) return "rising since";
  return "level since";
}

std::string progress(const ReportedRun& reported) {
  const std::int64_t last = reported.last_update();
  return last > reported.run.updates ? fmt::format("update {} of {}", grouped(reported.run.updates), grouped(last))
                                     : fmt::format("update {}", grouped(reported.run.updates));
}

std::string best_text(const ReportedRun& reported) {
  const Run& run = reported.run;
  if (!run.best) {
    if (!run.loss && !run.last) return "no update was made";
    return fmt::format("training loss {} at {}; no validation on the way", number_text(run.loss), progress(reported));
  }
  const std::int64_t last = std::max(reported.last_update(), run.best->update);
  std::string text = fmt::format("best validation loss {} at update {} of {}", number_text(run.best->loss),
                                 grouped(run.best->update), grouped(last));
  if (run.best->accuracy) text += fmt::format(", accuracy {:.2f} %", 100 * run.best->accuracy->top1);
  if (const std::string since = since_best(reported); !since.empty()) text += ", " + since;
  std::error_code ignored;
  const bool kept = std::filesystem::exists(run.path / "weights_best", ignored);
  return text + (kept ? ": weights_best" : "");
}

// The seconds until the last update, from those of an update.
std::string left_text(const ReportedRun& reported) {
  const std::int64_t left = reported.last_update() - reported.run.updates;
  if (left <= 0 || reported.history.median_seconds <= 0) return "";
  return fmt::format(", about {} left", time_text(static_cast<double>(left) * reported.history.median_seconds));
}

struct Six {
  std::string name, value, below;
};

Six loss_number(const ReportedRun& reported) {
  const Run& run = reported.run;
  if (run.best) return {"best validation loss", number_text(run.best->loss), "update " + grouped(run.best->update)};
  return {"training loss", number_text(run.loss), "of the last update"};
}

Six training_number(const ReportedRun& reported) {
  const std::vector<DataPoint> smooth = reported.history.smooth.points();
  if (smooth.empty()) return {"training loss", "-", ""};
  return {"training loss", number_text(smooth.back().y),
          fmt::format("smoothed; {} at the start", number_text(reported.history.loss.points().front().y))};
}

Six progress_number(const ReportedRun& reported) {
  std::string below = reported.last_update() > reported.run.updates ? "of " + grouped(reported.last_update()) : "all of them";
  if (const auto samples = reported.run.data.samples; samples && *samples > 0) {
    const double epochs = static_cast<double>(reported.run.samples) / static_cast<double>(*samples);
    below += fmt::format(", {:.{}f} epochs", epochs, epochs < 10 ? 2 : 1);
  }
  return {"updates", grouped(reported.run.updates), below};
}

Six time_number(const ReportedRun& reported) {
  return {"time of updates", time_text(reported.run.seconds),
          reported.history.updates > 0 ? time_text(reported.history.median_seconds) + " an update" : ""};
}

Six speed_number(const ReportedRun& reported) {
  const RunHistory& history = reported.history;
  const std::string name = reported.units() + " a second";
  if (history.update_seconds <= 0) return {name, "-", ""};
  const double all = history.tokens / history.update_seconds;
  return {name, short_count(history.trained / history.update_seconds),
          all > 0 ? "trained; " + short_count(all) + " of all" : "trained"};
}

Six memory_number(const ReportedRun& reported) {
  const Run& run = reported.run;
  return {"peak memory", bytes_text(run.measured.process), run.memory ? "of " + to_text(*run.memory) : "no budget"};
}

struct Hint {
  std::string_view code, text;
};

constexpr std::array<Hint, 9> kHints{{
    {"VALIDATION_RISES", "the validation loss rose in several evaluations in a row: the model learns its data by heart"},
    {"UPDATE_RATIO", "updates change a matrix by more than a tenth of its size: the rate is high"},
    {"DEAD_GRADIENT", "a gradient was zero in every update: a part of the model does not learn"},
    {"UNDERFLOW", "small fp16 gradients lose digits"},
    {"NOT_SAVED", "a checkpoint could not be written; the training went on"},
    {"OVERFLOW", "gradients overflowed with the loss scale"},
    {"SKIPPED", "samples of a window were left out"},
    {"PLATEAU", "the learning rate was lowered on a plateau of the validation loss"},
    {"UNSTABLE", "more spikes than in a healthy training"},
}};

std::string warning(const std::string& code, const std::string& text, bool error = false) {
  return fmt::format("<li{}><code>{}</code> {}</li>\n", error ? " class=\"error\"" : "", escaped(code), text);
}

std::string warnings_html(const ReportedRun& reported) {
  std::string items;
  const Run& run = reported.run;
  if (!run.error_code.empty()) items += warning(run.error_code, escaped(shortened(run.error_message, 600)), true);
  for (const auto& [name, event] : reported.history.events) {
    if (name == "data") continue;
    const auto hint = std::ranges::find(kHints, std::string_view(name), &Hint::code);
    std::string text = hint != kHints.end() ? escaped(hint->text) + ". " : "";
    text += event.count == 1
                ? fmt::format("At update {}", grouped(event.first))
                : fmt::format("{} times, at updates {} to {}", grouped(event.count), grouped(event.first), grouped(event.last));
    if (!event.text.empty()) text += fmt::format("<span class=\"dim\"> ({})</span>", escaped(event.text));
    items += warning(name, text);
  }
  if (const std::int64_t lost = reported.history.loss.left_out(); lost > 0) {
    items += warning("NONFINITE",
                     fmt::format("the loss of {} updates was not finite, the first at update {}", grouped(lost),
                                 short_count(reported.history.loss.first_left_out())),
                     true);
  }
  if (reported.history.spike_count > 0) {
    items += warning(
        "SPIKE", fmt::format("{} spikes of loss or gradient norm; the curves mark them", grouped(reported.history.spike_count)));
  }
  const LeftOut& left_out = reported.history.left_out;
  if (left_out.broken + left_out.out_of_order > 0) {
    items += warning("LINES", fmt::format("{} lines of metrics.jsonl cannot be read and {} are out of order; they are left out",
                                          grouped(left_out.broken), grouped(left_out.out_of_order)));
  }
  if (!run.fault.empty()) items += warning("FAULT", "a deliberate error: " + escaped(run.fault));
  return items.empty() ? "" : "<ul class=\"warnings\">\n" + items + "</ul>\n";
}

}  // namespace

std::string verdict_of(const ReportedRun& reported) {
  const Run& run = reported.run;
  if (run.status == "running")
    return fmt::format("running: {}{}; {}", progress(reported), left_text(reported), best_text(reported));
  if (has_diverged(run)) return fmt::format("diverged at {}; {}", progress(reported), best_text(reported));
  if (run.status == "failed") return fmt::format("failed at {}; {}", progress(reported), best_text(reported));
  if (run.status == "interrupted") {
    return fmt::format("interrupted at {}; {}. `plimsoll train --run {} --resume` goes on", progress(reported),
                       best_text(reported), shell_quoted(run.path.string()));
  }
  if (!run.stopped.empty()) return "stopped without further improvement: " + best_text(reported);
  return best_text(reported);
}

std::string state_html(const Run& run) {
  static constexpr std::array<std::string_view, 4> kStates{"done", "running", "failed", "interrupted"};
  const bool known = std::ranges::find(kStates, std::string_view(run.status)) != kStates.end();
  const std::string word = has_diverged(run) ? "diverged" : run.status.empty() ? "unreadable" : run.status;
  return fmt::format("<span class=\"state {}\">{}</span>", known ? run.status : "unreadable", escaped(word));
}

std::string summary_html(const ReportedRun& reported) {
  std::string out = fmt::format("<p class=\"verdict\">{}</p>\n<dl class=\"six\">\n", escaped(verdict_of(reported)));
  for (const Six& each : {loss_number(reported), training_number(reported), progress_number(reported), time_number(reported),
                          speed_number(reported), memory_number(reported)}) {
    out += fmt::format("<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", escaped(each.name), escaped(each.value),
                       each.below.empty() ? "&nbsp;" : escaped(each.below));
  }
  return out + "</dl>\n" + warnings_html(reported);
}

}  // namespace plimsoll
