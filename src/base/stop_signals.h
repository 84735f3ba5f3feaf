// Some signals ask a training to save and stop; others are ignored.
#pragma once

#include <array>
#include <csignal>

namespace plimsoll {

struct StopSignal {
  int number;
  const char* name;
};
// From people, terminals, batch systems, `timeout` and `alarm`, limits of processor time, a failing supply of power, and a pipe
// that nobody reads any more. All would end the process otherwise.
inline constexpr std::array kStopSignals{
    StopSignal{SIGINT, "SIGINT"},   StopSignal{SIGTERM, "SIGTERM"},      StopSignal{SIGQUIT, "SIGQUIT"},
    StopSignal{SIGHUP, "SIGHUP"},   StopSignal{SIGUSR1, "SIGUSR1"},      StopSignal{SIGUSR2, "SIGUSR2"},
    StopSignal{SIGXCPU, "SIGXCPU"}, StopSignal{SIGALRM, "SIGALRM"},      StopSignal{SIGVTALRM, "SIGVTALRM"},
    StopSignal{SIGPWR, "SIGPWR"},   StopSignal{SIGPIPE, "a closed pipe"}};

// Ignored: timers of profilers, descriptors and coprocessors. So are all of the numbers from SIGRTMIN to SIGRTMAX.
inline constexpr std::array kStraySignals{SIGPROF, SIGIO, SIGSTKFLT};

}  // namespace plimsoll
