#include "run/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/philox.h"
#include "device/cpu/parallel.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kSentinelBytes = 64;
constexpr std::byte kSentinel{0x5A};
constexpr std::int64_t kPoisonPiece = 1 << 20;

// A pattern that depends on the address, so that no constant result can look like it.
std::uint64_t poison_word(std::int64_t at) { return mix64(static_cast<std::uint64_t>(at) + 0x706c696d); }

// The end of the highest of these.
std::int64_t top_of(const std::vector<Operand>& operands) {
  std::int64_t top = 0;
  for (const Operand& operand : operands) top = std::max(top, align_up(operand.offset + operand.bytes, kAlignment).n);
  return top;
}

}  // namespace

Audit::Audit(const Program& program, const Graph& graph, const Arena& arena)
    : program_(program), graph_(graph), arena_(arena), checker_(arena.mapped()), behind_(kSentinelBytes) {}

void Audit::enter(Phase phase) {
  if (open_) close_phase();
  // A window goes on: its accumulators stay, and so do the ranges recorded so far.
  open_ = true;
  phase_ = phase;
  time_ = 0;
  library_end_ = 0;
  accesses_.clear();
  poison();
}

// All but what holds state: persistent values, and in a later micro-step of a window its accumulators.
void Audit::poison() {
  std::vector<std::pair<std::int64_t, std::int64_t>> kept;
  const auto keep = [&](const std::vector<Operand>& operands) {
    for (const Operand& operand : operands)
      kept.emplace_back(operand.offset.n, align_up(operand.offset + operand.bytes, kAlignment).n);
  };
  if (phase_ != Phase::load) keep(program_.persistent);
  if (phase_ == Phase::steady) keep(program_.window);
  std::sort(kept.begin(), kept.end());
  const std::int64_t end = arena_.mapped().n;
  std::int64_t at = 0;
  const auto fill = [&](std::int64_t begin, std::int64_t stop) {
    if (begin >= stop) return;
    const std::int64_t pieces = (stop - begin + kPoisonPiece - 1) / kPoisonPiece;
    cpu::parallel_for(pieces, [&](std::int64_t piece) {
      const std::int64_t last = std::min(stop, begin + (piece + 1) * kPoisonPiece);
      for (std::int64_t word = begin + piece * kPoisonPiece; word < last; word += 8) {
        const std::uint64_t value = poison_word(word);
        std::memcpy(arena_.base() + word, &value, 8);
      }
    });
  };
  for (const auto& [begin, stop] : kept) {
    fill(at, begin);
    at = std::max(at, stop);
  }
  fill(at, end);
}

// State that was not poisoned counts as touched.
Bytes Audit::changed_height() const {
  std::int64_t state = phase_ == Phase::load ? 0 : top_of(program_.persistent);
  if (phase_ == Phase::steady) state = std::max(state, top_of(program_.window));
  std::int64_t height = state;
  for (std::int64_t at = arena_.mapped().n - 8; at >= state; at -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, arena_.base() + at, 8);
    if (word == poison_word(at)) continue;
    height = align_up(Bytes{at + 8}, kAlignment).n;
    break;
  }
  return Bytes{std::max(height, library_end_)};
}

// A byte lives from a write to the last read before the next write; what is read before it was written lives from the start.
// State that outlives the phase lives through it, also where the phase writes it before it reads it.
Bytes Audit::live_peak() const {
  std::vector<std::int64_t> cuts;
  std::vector<Access> accesses = accesses_;
  std::vector<std::pair<std::int64_t, std::int64_t>> state;
  const auto hold = [&](const std::vector<Operand>& operands, int begin) {
    for (const Operand& operand : operands) {
      const std::int64_t end = align_up(operand.offset + operand.bytes, kAlignment).n;
      if (begin >= 0) {
        accesses.push_back({operand.offset.n, end, begin, false});
        state.emplace_back(operand.offset.n, end);
      }
      accesses.push_back({operand.offset.n, end, time_ - 1, false});
    }
  };
  hold(program_.persistent, 0);
  if (phase_ == Phase::first && program_.accumulation > 1) hold(program_.window, -1);
  std::stable_sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) { return a.time < b.time; });
  for (const Access& access : accesses) {
    cuts.push_back(access.begin);
    cuts.push_back(access.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

  struct Segment {
    int since = 0, until = -1;  // of the present content; until < since: not read yet
    bool seen = false;
    bool state = false;
  };
  std::vector<Segment> segments(cuts.size());
  for (const auto& [begin, end] : state) {
    for (auto i = std::lower_bound(cuts.begin(), cuts.end(), begin) - cuts.begin(); cuts[i] < end; ++i) segments[i].state = true;
  }
  std::vector<std::int64_t> delta(static_cast<std::size_t>(time_) + 1, 0);
  const auto settle = [&](std::size_t i) {
    const Segment& segment = segments[i];
    if (!segment.seen) return;
    const std::int64_t bytes = cuts[i + 1] - cuts[i];
    delta[static_cast<std::size_t>(segment.since)] += bytes;
    delta[static_cast<std::size_t>(std::max(segment.since, segment.until)) + 1] -= bytes;
  };
  for (const Access& access : accesses) {
    auto i = static_cast<std::size_t>(std::lower_bound(cuts.begin(), cuts.end(), access.begin) - cuts.begin());
    for (; cuts[i] < access.end; ++i) {
      Segment& segment = segments[i];
      if (access.write && !segment.state && !(segment.seen && segment.until == access.time)) {
        settle(i);
        segment = {access.time, access.time, true, false};
      } else {
        if (!segment.seen) segment = {0, access.time, true, segment.state};
        segment.until = std::max(segment.until, access.time);
      }
    }
  }
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) settle(i);
  std::int64_t live = 0, peak = 0;
  for (const std::int64_t change : delta) peak = std::max(peak, live += change);
  return Bytes{peak};
}

void Audit::close_phase() {
  if (time_ == 0) return;
  PhaseAudit& result = results_[phase_];
  result.phase = phase_;
  result.arena = std::max(result.arena, changed_height());
  result.live = std::max(result.live, live_peak());
}

std::vector<PhaseAudit> Audit::phases() const {
  const_cast<Audit*>(this)->close_phase();
  std::vector<PhaseAudit> phases;
  for (const auto& [phase, result] : results_) phases.push_back(result);
  return phases;
}

void Audit::record(const Operand& operand, bool write) {
  if (operand.bytes.n == 0) return;
  accesses_.push_back({operand.offset.n, align_up(operand.offset + operand.bytes, kAlignment).n, time_, write});
}

void Audit::plant_sentinel(const RunKernel& kernel) {
  std::byte* behind = arena_.base() + (kernel.scratch.offset + kernel.scratch.bytes).n;
  std::memcpy(behind_.data(), behind, kSentinelBytes);
  const std::int64_t begin = (kernel.scratch.offset + kernel.scratch.bytes).n;
  for (const auto* operands : {&kernel.inputs, &kernel.outputs}) {
    for (const Operand& operand : *operands) {
      if (operand.offset.n < begin + kSentinelBytes && begin < (operand.offset + operand.bytes).n) return;
    }
  }
  std::memset(behind, static_cast<int>(kSentinel), kSentinelBytes);
}

void Audit::check_sentinel(const Instruction& instruction, const RunKernel& kernel) {
  const std::int64_t begin = (kernel.scratch.offset + kernel.scratch.bytes).n;
  std::byte* behind = arena_.base() + begin;
  for (const auto* operands : {&kernel.inputs, &kernel.outputs}) {
    for (const Operand& operand : *operands) {
      if (operand.offset.n < begin + kSentinelBytes && begin < (operand.offset + operand.bytes).n) return;
    }
  }
  const bool intact = std::all_of(behind, behind + kSentinelBytes, [](std::byte byte) { return byte == kSentinel; });
  std::memcpy(behind, behind_.data(), kSentinelBytes);
  if (!intact) {
    throw internal_error("audit", fmt::format("{} ({}) wrote past its scratch of {} bytes", instruction.line,
                                              graph_.nodes[kernel.node].op->name, kernel.scratch.bytes.n));
  }
}

void Audit::before(const Instruction& instruction, bool window_start) {
  const auto read = [&](const Operand& operand) {
    record(operand, false);
    checker_.read(operand.offset, operand.bytes, operand.value.index, instruction.line);
  };
  if (const auto* kernel = std::get_if<RunKernel>(&instruction.what)) {
    const bool starts = window_start && kernel->starts_window;
    for (std::size_t i = 0; i < kernel->inputs.size(); ++i) {
      const bool unread =
          starts && std::find(kernel->accumulators.begin(), kernel->accumulators.end(), i) != kernel->accumulators.end();
      if (!unread) read(kernel->inputs[i]);
    }
    if (kernel->scratch.bytes.n > 0) plant_sentinel(*kernel);
  } else if (const auto* copy = std::get_if<StartCopy>(&instruction.what); copy != nullptr && copy->from.tier == 0) {
    read(copy->from);
  } else if (const auto* wait = std::get_if<WaitCopy>(&instruction.what)) {
    record(wait->room, false);
  } else if (const auto* fetch = std::get_if<Fetch>(&instruction.what)) {
    for (const Operand& operand : fetch->reads) read(operand);
  } else if (const auto* save = std::get_if<SaveState>(&instruction.what)) {
    for (const Operand& operand : save->reads) read(operand);
  }
}

void Audit::after(const Instruction& instruction, bool) {
  const auto write = [&](const Operand& operand) {
    record(operand, true);
    checker_.write(operand.offset, operand.bytes, operand.value.index, instruction.line);
  };
  if (const auto* kernel = std::get_if<RunKernel>(&instruction.what)) {
    if (kernel->scratch.bytes.n > 0) {
      check_sentinel(instruction, *kernel);
      record(kernel->scratch, true);
      checker_.write(kernel->scratch.offset, kernel->scratch.bytes, RangeChecker::kNothing, instruction.line);
      if (kernel->foreign_scratch) {
        library_end_ = std::max(library_end_, align_up(kernel->scratch.offset + kernel->scratch.bytes, kAlignment).n);
      }
    }
    for (const Operand& operand : kernel->outputs) write(operand);
  } else if (const auto* copy = std::get_if<StartCopy>(&instruction.what); copy != nullptr && copy->to.tier == 0) {
    // The room is held whole, however much of it a last piece fills.
    record(copy->room, true);
    library_end_ = std::max(library_end_, align_up(copy->room.offset + copy->room.bytes, kAlignment).n);
    checker_.write(copy->to.offset, copy->to.bytes, copy->to.value.index, instruction.line);
  } else if (const auto* feed = std::get_if<Feed>(&instruction.what)) {
    for (const Operand& operand : feed->writes) write(operand);
  } else if (const auto* load = std::get_if<LoadState>(&instruction.what)) {
    for (const Operand& operand : load->writes) write(operand);
  }
  ++time_;
}

}  // namespace plimsoll
