// The share of the processors used by other work during a measurement: other processes, other guests of the same host.
#pragma once

#include <iosfwd>
#include <string>

namespace plimsoll {

// The share of the processors up to which other work does not disturb a measurement.
inline constexpr double kQuiet = 0.1;

// Shares of all processors' time, 0 to 1. If the kernel has no counts per processor, `others` and `stolen` are 0.
struct Sharing {
  double others = 0;  // other processes
  double stolen = 0;  // other guests of the host ("steal")
  double waited = 0;  // this process's threads, ready but not running; 0 if /proc/stat has counts
  double most() const { return others + stolen + waited; }
  bool shared() const { return most() > kQuiet; }

  friend bool operator==(const Sharing&, const Sharing&) = default;
};

// "other processes had 38 % of the processors and other guests of the host 5 %".
std::string sharing_text(const Sharing& sharing);

// Seconds of all processors together since the machine started, from the first line of /proc/stat.
struct ProcessorTimes {
  double all = 0, busy = 0, stolen = 0;  // busy includes stolen
};
// Zeros if the text is no such line.
ProcessorTimes read_processor_times(std::istream& stat);

// The share of other work since construction. Times below 0.05 processor seconds count as 0, because the kernel counts in ticks.
class Contention {
 public:
  Contention();
  Sharing sharing() const;

 private:
  ProcessorTimes times_;
  double own_ = 0, ready_ = 0, began_ = 0;  // seconds
};

// True if nothing else runs now. Waits 0.3 seconds.
bool machine_is_idle();

}  // namespace plimsoll
