#include "run/instruction_timer.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace plimsoll {

InstructionTimer::InstructionTimer(const Program& program, const Graph& graph, Device& device)
    : program_(program), device_(device), host_(device.on_host()) {
  std::size_t place = 0;
  for (const Section section : graph.sections()) {
    ensure(static_cast<std::size_t>(section) == sections_.size(), "timer", "sections are numbered from 0");
    sections_.push_back({place, {}});
    place += program.of(section).size();
  }
  sums_.resize(place);
  last_.resize(place);
}

Bytes InstructionTimer::bytes_for(const Program& program) {
  std::size_t count = 0;
  for (const std::vector<Instruction>* section : program.sections()) count += section->size();
  return Bytes{static_cast<std::int64_t>(count * (sizeof(Seconds) + sizeof(Span)))};
}

void InstructionTimer::clear() {
  running_.reset();
  std::ranges::fill(sums_, Seconds{});
  for (Timed& section : sections_) section.runs = {};
}

std::size_t InstructionTimer::number_of(Section section, const Instruction& instruction) const {
  return static_cast<std::size_t>(&instruction - program_.of(section).data());
}

void InstructionTimer::open(Section section, bool window_start) {
  const auto place = static_cast<std::ptrdiff_t>(place_of(section, 0));
  std::fill_n(last_.begin() + place, program_.of(section).size(), Span{});
  running_ = section;
  window_start_ = window_start;
  begin_ = seconds_now();
}

void InstructionTimer::before(const Instruction& instruction, bool window_start) {
  const std::optional<Section> section = program_.section_of(instruction);
  if (!section) return;
  const std::size_t number = number_of(*section, instruction), place = place_of(*section, number);
  if (running_ != section || number <= previous_) {
    close();
    open(*section, window_start);
    first_ = number;
  }
  previous_ = number;
  if (!host_) return device_.stamp(2 * place);
  started_ = seconds_now();
  last_[place].begin = static_cast<float>(started_ - begin_);
}

void InstructionTimer::after(const Instruction& instruction, bool) {
  const std::optional<Section> section = program_.section_of(instruction);
  if (!section) return;
  const std::size_t number = number_of(*section, instruction), place = place_of(*section, number);
  Span& span = last_[place];
  span.seconds = host_ ? static_cast<float>(seconds_now() - started_) : 0;
  if (!host_) device_.stamp(2 * place + 1);
  if (number + 1 == program_.of(*section).size()) close();
}

// Adds the run of a section to the sums.
void InstructionTimer::close() {
  if (!running_) return;
  const Section section = *running_;
  const std::size_t start = place_of(section, 0), end = start + program_.of(section).size();
  for (std::size_t place = start; place < end; ++place) {
    Span& span = last_[place];
    if (!span.ran()) continue;
    if (!host_) {
      span.begin = static_cast<float>(device_.seconds_between(2 * (start + first_), 2 * place));
      span.seconds = static_cast<float>(device_.seconds_between(2 * place, 2 * place + 1));
    }
    (window_start_ ? sums_[place].starting : sums_[place].later) += span.seconds;
  }
  Runs& runs = sections_[static_cast<std::size_t>(section)].runs;
  ++(window_start_ ? runs.starting : runs.later);
  running_.reset();
  if (after_section_) after_section_(section, window_start_, begin_);
}

}  // namespace plimsoll
