#include "cli/progress.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "cli/environment.h"

namespace plimsoll {
namespace {

constexpr double kPlainInterval = 10;
constexpr double kSmoothing = 0.9;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return whole >= 60 ? fmt::format("{}m{:02}s", whole / 60, whole % 60) : fmt::format("{}s", whole);
}

}  // namespace

ProgressLine::ProgressLine(std::int64_t updates, Bytes budget)
    : updates_(updates), budget_(budget), live_(live_terminal()), colour_(colour_allowed()) {}

ProgressLine::~ProgressLine() {
  if (drawn_) std::fputs("\n", stderr);
}

void ProgressLine::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void ProgressLine::say(const std::string& text) {
  clear();
  fmt::print(stderr, "{}\n", text);
}

void ProgressLine::show(const Metrics& metrics) {
  const auto smooth = [](double mean, double value) { return mean == 0 ? value : kSmoothing * mean + (1 - kSmoothing) * value; };
  mean_seconds_ = smooth(mean_seconds_, metrics.seconds);
  mean_loss_ = smooth(mean_loss_, metrics.loss);
  const double rate = metrics.seconds > 0 ? static_cast<double>(metrics.units) / mean_seconds_ : 0;
  const double left = mean_seconds_ * static_cast<double>(updates_ - metrics.update);
  const std::string line = fmt::format("update {}/{}  loss {:.4f} (mean {:.4f})  lr {:.2e}  |g| {:.2f}  {:.0f} tok/s  mem {} / {}  eta {}",
                                       metrics.update, updates_, metrics.loss, mean_loss_, metrics.learning_rate, metrics.grad_norm,
                                       rate, to_text(metrics.vm_hwm), to_text(budget_), duration_text(left));
  if (live_) {
    fmt::print(stderr, "\r\033[K{}{}{}", colour_ ? "\033[1m" : "", line, colour_ ? "\033[0m" : "");
    std::fflush(stderr);
    drawn_ = true;
    return;
  }
  const double time = now();
  if (metrics.update != updates_ && metrics.update != 1 && time - last_plain_ < kPlainInterval) return;
  last_plain_ = time;
  fmt::print(stderr, "{}\n", line);
}

}  // namespace plimsoll
