#include "cli/signals.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "base/stop_signals.h"
#include "cli/say.h"

namespace plimsoll {
namespace {

// `timeout` and some shells send their signal to the process and to its group: two signals within this time are one request.
constexpr std::int64_t kSameRequest = 250'000'000;  // nanoseconds

std::atomic<int> stopped_by = 0;         // the first signal
std::atomic<std::int64_t> asked_at = 0;  // time of the first SIGINT, SIGTERM or SIGQUIT, nanoseconds; 0: none
std::atomic<pid_t> trainer_process = 0;
std::atomic<bool> announces = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

// The signal that the user sent to `launch`, in a rank.
int meaning(int signal) {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) {
    if (signal == passed_signal(i)) return kStopSignals[i].number;
  }
  return signal;
}

void request(int signal) {
  int none = 0;
  stopped_by.compare_exchange_strong(none, signal);
}

// Every call in here is async-signal-safe.
void on_signal(int caught) {
  const int signal = meaning(caught);
  constexpr std::string_view kPlain = "\nstopping at the next update boundary; once more ends at once, unsaved\n";
  constexpr std::string_view kObject =
      R"({"event":"note","text":"stopping at the next update boundary; once more ends at once, unsaved"})"
      "\n";
  const std::string_view text = logs_json() ? kObject : kPlain;
  const int error = errno;
  const bool from_user = signal == SIGINT || signal == SIGTERM || signal == SIGQUIT;
  const bool first = stopped_by.load() == 0;
  request(signal);
  std::int64_t before = 0;
  if (from_user && !asked_at.compare_exchange_strong(before, now()) && now() - before > kSameRequest) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // delivered when this handler returns
  } else if ((first || (from_user && before == 0)) && signal != SIGPIPE && announces && ::getpid() == trainer_process.load()) {
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
  }
  errno = error;
}

std::atomic<bool> answers_in_json = false;

void end_now(int) {
  constexpr std::string_view kText = "\nE-INTERRUPTED  stopped: nothing has been saved\n";
  constexpr std::string_view kJson =
      R"({"schema":"plimsoll.error/1","code":"E-INTERRUPTED","where":"plimsoll","message":"it was stopped","expected":"","try":[]})"
      "\n";
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, kText.data(), kText.size());
  if (answers_in_json) ignored = ::write(STDOUT_FILENO, kJson.data(), kJson.size());
  ::_exit(6);
}

std::atomic<bool> interrupt = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int signal) {
  if (!interrupt.exchange(true)) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

void catch_signals(bool of_rank) {
  trainer_process = ::getpid();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const StopSignal& signal : kStopSignals) {
    struct sigaction present {};
    const bool ignored = sigaction(signal.number, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
    if (signal.number == SIGHUP && ignored) continue;
    sigaction(signal.number, &action, nullptr);
  }
  for (const int signal : kStraySignals) ::signal(signal, SIG_IGN);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) ::signal(signal, SIG_IGN);
  for (std::size_t i = 0; of_rank && i < kStopSignals.size(); ++i) sigaction(passed_signal(i), &action, nullptr);
}

void announce_stops() { announces = true; }

void end_on_interrupt(bool json) {
  answers_in_json = json;
  struct sigaction action {};
  action.sa_handler = end_now;
  sigaction(SIGINT, &action, nullptr);
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART, so that the reading of a line ends
  sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return interrupt.load(); }
bool take_interrupt() { return interrupt.exchange(false); }

void ignore_file_size_signal() { ::signal(SIGXFSZ, SIG_IGN); }

bool stop_requested() { return stopped_by.load() != 0; }

const char* stop_reason() {
  const auto* const found = std::ranges::find(kStopSignals, stopped_by.load(), &StopSignal::number);
  return found == kStopSignals.end() ? nullptr : found->name;
}

void stop_for_closed_pipe() { request(SIGPIPE); }

}  // namespace plimsoll
