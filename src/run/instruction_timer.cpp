#include "run/instruction_timer.h"

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "base/error.h"

namespace plimsoll {

InstructionTimer::InstructionTimer(const Program& program, const Graph& graph, Device& device)
    : device_(device), host_(device.on_host()) {
  std::size_t place = 0;
  for (const Section section : graph.sections()) {
    const std::vector<Instruction>& instructions = program.of(section);
    ensure(static_cast<std::size_t>(section) == sections_.size(), "timer", "sections are numbered from 0");
    sections_.push_back({instructions.data(), instructions.size(), place, {}});
    place += instructions.size();
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
  running_ = kNone;
  std::ranges::fill(sums_, Seconds{});
  for (Timed& section : sections_) section.runs = {};
}

// Loads and saves are in no section.
std::size_t InstructionTimer::find_section(const Instruction& instruction) const {
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    const Timed& section = sections_[i];
    if (!std::less<>()(&instruction, section.first) && std::less<>()(&instruction, section.first + section.size)) return i;
  }
  return kNone;
}

void InstructionTimer::open(std::size_t section, bool window_start) {
  const Timed& timed = sections_[section];
  std::fill_n(last_.begin() + static_cast<std::ptrdiff_t>(timed.place), timed.size, Span{});
  running_ = section;
  window_start_ = window_start;
  begin_ = seconds_now();
}

void InstructionTimer::before(const Instruction& instruction, bool window_start) {
  const std::size_t section = find_section(instruction);
  if (section == kNone) return;
  const Timed& timed = sections_[section];
  const auto number = static_cast<std::size_t>(&instruction - timed.first);
  if (running_ != section || number <= previous_) {
    close();
    open(section, window_start);
    first_ = number;
  }
  previous_ = number;
  if (!host_) return device_.stamp(2 * (timed.place + number));
  started_ = seconds_now();
  last_[timed.place + number].begin = static_cast<float>(started_ - begin_);
}

void InstructionTimer::after(const Instruction& instruction, bool) {
  const std::size_t section = find_section(instruction);
  if (section == kNone) return;
  const Timed& timed = sections_[section];
  const auto number = static_cast<std::size_t>(&instruction - timed.first);
  Span& span = last_[timed.place + number];
  span.seconds = host_ ? static_cast<float>(seconds_now() - started_) : 0;
  if (!host_) device_.stamp(2 * (timed.place + number) + 1);
  if (number + 1 == timed.size) close();
}

// Adds the run of a section to the sums.
void InstructionTimer::close() {
  if (running_ == kNone) return;
  Timed& timed = sections_[running_];
  for (std::size_t place = timed.place; place < timed.place + timed.size; ++place) {
    Span& span = last_[place];
    if (!span.ran()) continue;
    if (!host_) {
      span.begin = static_cast<float>(device_.seconds_between(2 * (timed.place + first_), 2 * place));
      span.seconds = static_cast<float>(device_.seconds_between(2 * place, 2 * place + 1));
    }
    (window_start_ ? sums_[place].starting : sums_[place].later) += span.seconds;
  }
  ++(window_start_ ? timed.runs.starting : timed.runs.later);
  const auto section = static_cast<Section>(running_);
  running_ = kNone;
  if (after_section_) after_section_(section, window_start_, begin_);
}

}  // namespace plimsoll
