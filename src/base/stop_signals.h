// Signals that make a training save and stop, and ignored signals.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>

namespace plimsoll {

struct StopSignal {
  int number;
  const char* name;
};
// Signals from people, terminals, batch systems, `timeout`, `alarm`, limits of processor time, a failing power supply, and pipes
// without a reader. Their default is to end the process.
inline constexpr std::array kStopSignals{
    StopSignal{SIGINT, "SIGINT"},   StopSignal{SIGTERM, "SIGTERM"},      StopSignal{SIGQUIT, "SIGQUIT"},
    StopSignal{SIGHUP, "SIGHUP"},   StopSignal{SIGUSR1, "SIGUSR1"},      StopSignal{SIGUSR2, "SIGUSR2"},
    StopSignal{SIGXCPU, "SIGXCPU"}, StopSignal{SIGALRM, "SIGALRM"},      StopSignal{SIGVTALRM, "SIGVTALRM"},
    StopSignal{SIGPWR, "SIGPWR"},   StopSignal{SIGPIPE, "a closed pipe"}};

// The signal by which `launch` passes kStopSignals[i] to the ranks: mpirun passes no SIGINT and no SIGTERM.
inline int passed_signal(std::size_t i) { return SIGRTMIN + 1 + static_cast<int>(i); }

// Ignored signals: timers of profilers, descriptors and coprocessors. SIGRTMIN to SIGRTMAX are ignored as well.
inline constexpr std::array kStraySignals{SIGPROF, SIGIO, SIGSTKFLT};

}  // namespace plimsoll
