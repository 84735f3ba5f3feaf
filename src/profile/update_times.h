// The times of the instructions of one update, run by run of a section, in a file: the process that trains holds one run at a
// time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/prefetch.h"
#include "formats/atomic_file.h"
#include "run/instruction_timer.h"

namespace plimsoll {

// One run of a section.
struct SectionTimes {
  Section section = Section::micro;
  bool window_start = false;
  double begin = 0;  // clock
  std::vector<InstructionTimer::Span> spans;
};

struct UpdateTimes {
  std::int64_t update = 0;
  double begin = 0, end = 0;  // clock
  std::vector<SectionTimes> sections;
  std::vector<Prefetcher::Reading> readings;  // of the micro-batches, as they were taken
};

class UpdateTimesFile {
 public:
  // E-IO-WRITE if the file cannot be written.
  explicit UpdateTimesFile(const std::filesystem::path& path) : file_(path) {}

  // Writes the last run of a section.
  void add(const InstructionTimer& timer, Section section, bool window_start, double begin);
  void add(const Prefetcher::Reading& reading);
  // Ends the file.
  void finish(std::int64_t update, double begin, double end);

 private:
  template <class Item>
  void write(const Item& item);

  AtomicFile file_;
};

// Reads a file that this process has written.
UpdateTimes read_update_times(const std::filesystem::path& path);

}  // namespace plimsoll
