#include "cli/patience.h"

#include <fmt/core.h>

#include <chrono>
#include <utility>

#include "base/clock.h"
#include "cli/environment.h"
#include "cli/progress.h"
#include "cli/say.h"

namespace plimsoll {

Patience::Patience(std::string work) : work_(std::move(work)) {
  if (live_terminal()) thread_ = std::jthread([this](const std::stop_token& stop) { draw_on(stop); });
}

Patience::~Patience() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void Patience::now(std::string work) {
  const std::lock_guard lock(mutex_);
  work_ = std::move(work);
}

void Patience::draw_on(std::stop_token stop) {
  constexpr std::chrono::milliseconds kInterval(500);
  constexpr double kPatience = 2;
  const double start = seconds_now();
  bool drawn = false;
  std::unique_lock lock(mutex_);
  while (!wakes_.wait_for(lock, stop, kInterval, [&] { return stop.stop_requested(); })) {
    const double seconds = seconds_now() - start;
    if (seconds < kPatience) continue;
    say_marked(fmt::format("\r\033[K{} ... {}", work_, duration_text(seconds)));
    drawn = true;
  }
  if (drawn) say_marked("\r\033[K");
}

}  // namespace plimsoll
