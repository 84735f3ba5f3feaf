#include "cli/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/clock.h"
#include "cli/environment.h"
#include "cli/say.h"

namespace plimsoll {
namespace {

// A log gets a line at most this often, and at most for every hundredth of the run; a terminal ten a second.
constexpr double kPlainInterval = 10, kLiveInterval = 0.1;
constexpr std::int64_t kMostPlainLines = 100;
// The first live line stays, and one after each twentieth of the run or after a minute.
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

std::string progress_text(const Metrics& metrics, std::int64_t updates, Bytes budget, double mean_seconds, double mean_loss,
                          int columns) {
  struct Part {
    std::string text;
    int rank;  // the highest goes first
  };
  const double rate = mean_seconds > 0 ? static_cast<double>(metrics.units) / mean_seconds : 0;
  const double left = mean_seconds * static_cast<double>(std::max<std::int64_t>(0, updates - metrics.update));
  const std::array<Part, 8> parts{{{fmt::format("update {}/{}", metrics.update, updates), 0},
                                   {fmt::format("  loss {:.4f}", metrics.loss), 1},
                                   {fmt::format(" (mean {:.4f})", mean_loss), 6},
                                   {fmt::format("  lr {:.2e}", metrics.learning_rate), 7},
                                   {fmt::format("  |g| {:.2f}", metrics.grad_norm), 5},
                                   {fmt::format("  {} tok/s", rate_text(rate)), 4},
                                   {fmt::format("  mem {} / {}", to_text(metrics.vm_hwm), to_text(budget)), 3},
                                   {fmt::format("  eta {}", left > 0 && left < 1 ? "<1 s" : duration_text(left)), 2}}};
  for (int most = 7; most >= 0; --most) {
    std::string line;
    for (const Part& part : parts) line += part.rank <= most ? part.text : "";
    if (static_cast<int>(line.size()) <= columns) return line;
  }
  return parts[0].text.substr(0, static_cast<std::size_t>(std::max(0, columns)));
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

ProgressLine::ProgressLine(std::int64_t updates, Bytes budget)
    : updates_(updates), budget_(budget), live_(live_terminal()), colour_(colour_allowed()) {}

ProgressLine::~ProgressLine() {
  if (!line_.empty()) say_text("\n");
}

void ProgressLine::draw() { say_text(fmt::format("\r\033[K{}{}{}", colour_ ? "\033[1m" : "", line_, colour_ ? "\033[0m" : "")); }

void ProgressLine::say(const std::string& text) {
  if (!line_.empty()) say_text("\r\033[K");
  say_line(text);
  if (!line_.empty()) draw();
}

// The line stays where it is, and the live one goes on below.
void ProgressLine::keep(const std::string& text, std::int64_t update, double time) {
  fmt::print(stderr, "\r\033[K{}\n", text);
  line_.clear();
  last_kept_ = time;
  kept_update_ = update;
}

void ProgressLine::show(const Metrics& metrics) {
  const auto smooth = [](double mean, double value) { return mean == 0 ? value : kSmoothing * mean + (1 - kSmoothing) * value; };
  mean_seconds_ = smooth(mean_seconds_, metrics.seconds);
  mean_loss_ = smooth(mean_loss_, metrics.loss);
  const double time = seconds_now();
  const bool first = last_update_ == 0, last = metrics.update == updates_;
  const bool soon = time - last_shown_ < (live_ ? kLiveInterval : kPlainInterval) ||
                    (!live_ && metrics.update - last_update_ < updates_ / kMostPlainLines);
  const std::int64_t since_kept = metrics.update - kept_update_;
  const bool keeps =
      live_ && !last && (kept_update_ == 0 || since_kept * kKeptLines >= updates_ || time - last_kept_ >= kKeptInterval);
  const bool quiet = !keeps && !first && !last && soon;
  if (quiet && !live_) return;
  // The last column stays free: some terminals wrap when it is written.
  const std::string text =
      progress_text(metrics, updates_, budget_, mean_seconds_, mean_loss_, live_ ? terminal_columns() - 1 : kPlainColumns);
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
