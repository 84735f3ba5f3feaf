#include "trials/stop_requests.h"

#include <cstddef>

#include "base/error.h"

namespace plimsoll {
namespace {

std::atomic<StopRequests*> present = nullptr;  // for the handler
static_assert(std::atomic<StopRequests*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<pid_t>::is_always_lock_free);

bool is_of_terminal(int signal) { return signal == SIGINT || signal == SIGQUIT || signal == SIGPIPE; }

}  // namespace

// Every call in here is async-signal-safe.
void StopRequests::on_signal(int signal) {
  StopRequests* const requests = present.load();
  if (requests == nullptr) return;
  requests->stopped_ = true;
  const pid_t child = requests->child_.load();
  if (child > 0 && !is_of_terminal(signal)) ::kill(child, signal);
}

StopRequests::StopRequests() {
  StopRequests* none = nullptr;
  ensure(present.compare_exchange_strong(none, this), "trials", "two objects take the signals of the process");
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i].number, &action, &before_[i]);
}

StopRequests::~StopRequests() {
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i].number, &before_[i], nullptr);
  present = nullptr;
}

}  // namespace plimsoll
