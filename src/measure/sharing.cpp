#include "measure/sharing.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <istream>
#include <system_error>
#include <thread>

#include "base/clock.h"

namespace plimsoll {
namespace {

double seconds_of(const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); }

double own_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

// The seconds in which threads were ready but did not run, over all threads: the second number of their schedstat files.
double ready_seconds() {
  double sum = 0;
  std::error_code ignored;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
    double ran = 0, ready = 0;
    std::ifstream file(task.path() / "schedstat");
    if (file >> ran >> ready) sum += 1e-9 * ready;
  }
  return sum;
}

ProcessorTimes processor_times() {
  std::ifstream stat("/proc/stat");
  return read_processor_times(stat);
}

}  // namespace

std::string sharing_text(const Sharing& sharing) {
  std::string text;
  const auto add = [&](double share, const char* who) {
    if (share < 0.005) return;
    text += fmt::format("{}{} had {:.0f} % of the processors", text.empty() ? "" : " and ", who, 100 * share);
  };
  add(sharing.others, "other processes");
  add(sharing.stolen, "other guests of the host");
  add(sharing.waited, "other work");
  return text.empty() ? "nothing else ran" : text;
}

ProcessorTimes read_processor_times(std::istream& stat) {
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0, stolen = 0;
  if (!(stat >> cpu >> user >> nice >> system >> idle >> waiting >> interrupts >> soft) || cpu != "cpu") return {};
  stat >> stolen;  // kernels before 2.6.11 do not count it
  const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double busy = user + nice + system + interrupts + soft + stolen;
  return {(busy + idle + waiting) / tick, busy / tick, stolen / tick};
}

Contention::Contention() : times_(processor_times()), own_(own_seconds()), ready_(ready_seconds()), began_(seconds_now()) {}

Sharing Contention::sharing() const {
  const ProcessorTimes now = processor_times();
  constexpr double kLeast = 0.05;
  if (const double all = now.all - times_.all; all >= kLeast) {
    const double stolen = std::clamp((now.stolen - times_.stolen) / all, 0.0, 1.0);
    const double others = (now.busy - times_.busy - (own_seconds() - own_)) / all - stolen;
    return {std::clamp(others, 0.0, 1.0), stolen, 0};
  }
  const double processors = std::max(1.0, static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)));
  const double all = processors * (seconds_now() - began_);
  if (now.all > 0 || all < kLeast) return {};
  return {0, 0, std::clamp((ready_seconds() - ready_) / all, 0.0, 1.0)};
}

bool machine_is_idle() {
  constexpr double kIdle = 0.05;
  const Contention contention;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return contention.sharing().most() <= kIdle;
}

}  // namespace plimsoll
