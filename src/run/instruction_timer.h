// An observer that keeps the seconds of each instruction of the sections, for calibration, benchmarks and `profile`. Its arrays
// get their size from the program when it is made; later it allocates nothing. On the host an instruction costs two clock reads.
// On a GPU the device stamps its stream, and the stamps are read at the end of each section, so a GPU needs CudaPace::kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "run/executor.h"

namespace plimsoll {

class InstructionTimer : public RunObserver {
 public:
  // All arguments outlive this.
  InstructionTimer(const Program& program, const Graph& graph, Device& device);
  // The bytes of its arrays, without a GPU's events.
  static Bytes bytes_for(const Program& program);

  void before(const Instruction& instruction, bool window_start) override;
  void after(const Instruction& instruction, bool window_start) override;

  // Forgets all runs.
  void clear();
  // Called after each run of a section, with the times of its instructions in place; `begin`: the clock at its first instruction.
  using AfterSection = std::function<void(Section section, bool window_start, double begin)>;
  void after_section(AfterSection hook) { after_section_ = std::move(hook); }

  // Numbers of runs of a section: those that start a window or a pass, and the others.
  struct Runs {
    std::int64_t starting = 0, later = 0;
    std::int64_t all() const { return starting + later; }
  };
  Runs runs(Section section) const { return sections_[static_cast<std::size_t>(section)].runs; }
  // Seconds of all runs.
  struct Seconds {
    double starting = 0, later = 0;
    double all() const { return starting + later; }
  };
  Seconds seconds(Section section, std::size_t instruction) const { return sums_[place_of(section, instruction)]; }
  // In the last run of the section, `begin` since its first instruction. A run may leave an instruction out.
  struct Span {
    float begin = 0, seconds = -1;
    bool ran() const { return seconds >= 0; }
  };
  Span last(Section section, std::size_t instruction) const { return last_[place_of(section, instruction)]; }
  std::span<const Span> last(Section section) const {
    return std::span(last_).subspan(place_of(section, 0), program_.of(section).size());
  }

 private:
  struct Timed {
    std::size_t place = 0;  // of its first instruction in the arrays
    Runs runs;
  };

  std::size_t place_of(Section section, std::size_t instruction) const {
    return sections_[static_cast<std::size_t>(section)].place + instruction;
  }
  std::size_t number_of(Section section, const Instruction& instruction) const;
  void open(Section section, bool window_start);
  void close();

  const Program& program_;
  Device& device_;
  bool host_;
  std::vector<Timed> sections_;  // by section
  std::vector<Seconds> sums_;
  std::vector<Span> last_;
  AfterSection after_section_;
  std::optional<Section> running_;
  std::size_t previous_ = 0;  // the instruction of it that ran last
  std::size_t first_ = 0;     // the first one that ran
  bool window_start_ = false;
  double begin_ = 0, started_ = 0;  // clock at the begin of the section, of the instruction
};

}  // namespace plimsoll
