#include "cli/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "cli/environment.h"
#include "cli/say.h"

namespace plimsoll {
namespace {

// Seconds between lines of a log, which gets at most one line per hundredth of the run; seconds between states of a live line.
constexpr double kPlainInterval = 10, kLiveInterval = 0.1;
constexpr std::int64_t kMostPlainLines = 100;
// A terminal keeps the first live line, and one per twentieth of the run or per minute.
constexpr double kKeptInterval = 60;
constexpr std::int64_t kKeptLines = 20;
constexpr double kSmoothing = 0.9;
constexpr int kPlainColumns = 200;

}  // namespace

std::string duration_text(double seconds) {
  if (seconds <= 0) return "0 s";
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.01 ? 1 : 0);
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return whole >= 60 ? fmt::format("{}m{:02}s", whole / 60, whole % 60) : fmt::format("{} s", whole);
}

std::string rate_text(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.1f}M", per_second / 1e6);
  return per_second >= 1e4 ? fmt::format("{:.1f}k", per_second / 1e3) : fmt::format("{:.0f}", per_second);
}

std::string trained_rate_text(double trained_per_second, double all_per_second, std::string_view rate) {
  if (!rate.empty()) return fmt::format("{} {}", rate_text(trained_per_second), rate);
  constexpr double kSame = 1.001;
  const std::string trained = fmt::format("{} trained tok/s", rate_text(trained_per_second));
  if (all_per_second <= kSame * trained_per_second) return trained;
  return fmt::format("{}, {} of all tokens", trained, rate_text(all_per_second));
}

std::string progress_text(const Metrics& metrics, const ProgressFacts& facts, int columns) {
  struct Part {
    std::string text;
    int rank;  // parts with the highest rank are dropped first
  };
  const auto rate = [&](std::int64_t tokens) {
    return facts.mean_seconds > 0 ? static_cast<double>(tokens) / facts.mean_seconds : 0;
  };
  const double left = facts.seconds_left;
  const std::array<Part, 8> parts{
      {{fmt::format("update {}/{}", metrics.update, facts.updates), 0},
       {fmt::format("  loss {:.4f}", metrics.loss), 1},
       {fmt::format(" (mean {:.4f})", facts.mean_loss), 6},
       {fmt::format("  lr {:.2e}", metrics.learning_rate), 7},
       {fmt::format("  |g| {:.2f}", metrics.grad_norm), 5},
       {fmt::format("  {}", trained_rate_text(rate(metrics.units), rate(metrics.positions), facts.rate)), 4},
       {fmt::format("  mem {} / {}", to_text(metrics.vm_hwm), to_text(facts.budget)), 3},
       {fmt::format("  eta {}", left > 0 && left < 1 ? "<1 s" : duration_text(left)), 2}}};
  for (int most = 7; most >= 0; --most) {
    std::string line;
    for (const Part& part : parts) line += part.rank <= most ? part.text : "";
    if (static_cast<int>(line.size()) <= columns) return line;
  }
  return parts[0].text.substr(0, static_cast<std::size_t>(std::max(0, columns)));
}

double RemainingTime::after(std::int64_t update, double update_seconds) const {
  // The number of multiples of `every` after this update. The last update always has an evaluation and a save.
  const auto due = [&](std::int64_t every) {
    return every > 0 && update < updates ? (updates - 1) / every - (update - 1) / every : 0;
  };
  double seconds = update_seconds * static_cast<double>(std::max<std::int64_t>(0, updates - update));
  if (evaluates) seconds += evaluation_seconds * static_cast<double>(due(evaluate_every) + 1);
  double saves = 1;
  if (save_every.seconds > 0) {
    saves += std::floor(seconds / static_cast<double>(save_every.seconds));
  } else {
    saves += static_cast<double>(due(save_every.updates));
  }
  return seconds + save_seconds * saves;
}

RemainingTime planned_time(const Config& config, const nlohmann::json& plan) {
  RemainingTime remaining;
  remaining.evaluate_every = evaluation_interval(config);
  remaining.save_every = config.save.every;
  take_times(remaining, plan);
  return remaining;
}

void take_times(RemainingTime& remaining, const nlohmann::json& plan) {
  const nlohmann::json& predicted = plan.at("predicted");
  const auto seconds = [&](const char* key) {
    const auto found = predicted.find(key);
    return found != predicted.end() && found->is_number() ? found->get<double>() : 0;
  };
  remaining.evaluation_seconds = seconds("evaluate_seconds");
  remaining.save_seconds = seconds("save_seconds");
}

bool PlainPace::due(std::int64_t update, std::int64_t updates) {
  const double time = seconds_now();
  const bool soon = time - last_shown_ < kPlainInterval || update - last_update_ < updates / kMostPlainLines;
  if (last_update_ > 0 && update != updates && soon) return false;
  last_shown_ = time;
  last_update_ = update;
  return true;
}

std::string EvaluationProgress::next(std::int64_t done, std::int64_t samples) {
  const double time = seconds_now();
  if (begun_ < 0) begun_ = shown_ = time;
  if (time - shown_ < kPlainInterval || done >= samples) return "";
  shown_ = time;
  const double left =
      (time - begun_) / static_cast<double>(std::max<std::int64_t>(1, done)) * static_cast<double>(samples - done);
  return fmt::format("evaluating: {} of {} samples, {} left", done, samples, duration_text(left));
}

ProgressLine::ProgressLine(const RemainingTime& remaining, Bytes budget, std::string rate)
    : remaining_(remaining), budget_(budget), rate_(std::move(rate)), live_(live_terminal()), colour_(colour_allowed()) {}

ProgressLine::~ProgressLine() {
  if (!line_.empty()) say_marked("\n");
}

void ProgressLine::draw() {
  say_marked(fmt::format("\r\033[K{}{}{}", colour_ ? "\033[1m" : "", line_, colour_ ? "\033[0m" : ""));
}

void ProgressLine::say(const std::string& text) {
  if (!line_.empty()) say_marked("\r\033[K");
  say_line(text);
  if (!line_.empty()) draw();
}

// Makes the line permanent; the live line continues below it.
void ProgressLine::keep(const std::string& text, std::int64_t update, double time) {
  say_marked(fmt::format("\r\033[K{}\n", text));
  line_.clear();
  last_kept_ = time;
  kept_update_ = update;
}

void ProgressLine::show(const Metrics& metrics) {
  const auto smooth = [](double mean, double value) { return mean == 0 ? value : kSmoothing * mean + (1 - kSmoothing) * value; };
  mean_seconds_ = smooth(mean_seconds_, metrics.seconds);
  mean_loss_ = smooth(mean_loss_, metrics.loss);
  const double time = seconds_now();
  const std::int64_t updates = remaining_.updates;
  const bool first = last_update_ == 0, last = metrics.update == updates;
  const bool soon = time - last_shown_ < (live_ ? kLiveInterval : kPlainInterval) ||
                    (!live_ && metrics.update - last_update_ < updates / kMostPlainLines);
  const std::int64_t since_kept = metrics.update - kept_update_;
  const bool keeps =
      live_ && !last && (kept_update_ == 0 || since_kept * kKeptLines >= updates || time - last_kept_ >= kKeptInterval);
  const bool quiet = !keeps && !first && !last && soon;
  if (quiet && !live_) return;
  // The last column stays free: some terminals wrap when it is written.
  const ProgressFacts facts{updates, budget_, mean_seconds_, mean_loss_, remaining_.after(metrics.update, mean_seconds_), rate_};
  const std::string text = progress_text(metrics, facts, live_ ? terminal_columns() - 1 : kPlainColumns);
  if (live_) line_ = text;
  if (quiet) return;
  last_shown_ = time;
  last_update_ = metrics.update;
  if (keeps) {
    keep(text, metrics.update, time);
  } else if (live_) {
    draw();
  } else {
    say_line(text);
  }
}

}  // namespace plimsoll
