// The stop signals (base/stop_signals.h) of a process that waits for another one. One object at a time: it takes the signals when
// it begins, and gives them back at its end.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <csignal>

#include "base/stop_signals.h"

namespace plimsoll {

class StopRequests {
 public:
  StopRequests();
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  // True after a signal.
  bool stopped() const { return stopped_.load(); }
  // The process that is told of later signals; 0: none. A terminal signals all processes of a command, so signals of terminals
  // are not passed on.
  void pass_to(pid_t child) { child_ = child; }

 private:
  static void on_signal(int signal);

  std::atomic<bool> stopped_ = false;
  std::atomic<pid_t> child_ = 0;
  std::array<struct sigaction, kStopSignals.size()> before_{};
};

}  // namespace plimsoll
