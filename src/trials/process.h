// A program in a process of its own, which this process follows and ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trials/stop_requests.h"

namespace plimsoll {

inline constexpr double kPatience = 60;  // seconds from a request to stop to the end by force

struct ProcessRequest {
  std::filesystem::path program = "/proc/self/exe";  // this one
  std::vector<std::string> words;                    // the first is its name
  std::filesystem::path out, error;                  // files for stdout and stderr, replaced
  double most_seconds = 0;                           // of its life; 0: no limit
  double patience = kPatience;
  std::function<bool()> look;  // called several times a second; true asks the process to stop
};

struct ProcessEnd {
  // The first reason to ask for the end.
  enum class Asked : std::uint8_t { no, by_look, by_time, by_signal };
  int exit_code = 0;  // or 128 plus the signal's number, as shells have it
  Asked asked = Asked::no;
  bool forced = false;  // SIGKILL after the patience
  double seconds = 0;
};

// Starts the program and waits for its end. To stop it, it sends SIGTERM, and SIGKILL once the patience is over; a signal to this
// process has the same effect. The program gets SIGTERM as well if this process dies. E-CHILD if the system starts no process,
// E-IO-WRITE for the two files.
ProcessEnd run_process(const ProcessRequest& request, StopRequests& signals);

}  // namespace plimsoll
