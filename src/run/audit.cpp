#include "run/audit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"
#include "base/visit.h"
#include "device/cpu/parallel.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kSentinelBytes = 64;
constexpr std::byte kSentinel{0x5A};
constexpr std::int64_t kPoisonPiece = 1 << 20;

// A pattern that depends on the address, so that no constant result can look like it.
std::uint64_t poison_word(std::int64_t at) { return mix64(static_cast<std::uint64_t>(at) + 0x706c696d); }

// The end of the highest operand.
std::int64_t top_of(const std::vector<Operand>& operands) {
  std::int64_t top = 0;
  for (const Operand& operand : operands) top = std::max(top, align_up(operand.offset + operand.bytes, kAlignment).n);
  return top;
}

// Bytes [begin, end) of the arena.
Operand bytes_between(std::int64_t begin, std::int64_t end) { return {0, 0, Bytes{begin}, Bytes{end - begin}, {}}; }

void poison(std::span<std::byte> bytes, std::int64_t begin) {
  const auto end = static_cast<std::int64_t>(bytes.size());
  cpu::parallel_for((end + kPoisonPiece - 1) / kPoisonPiece, [&](std::int64_t piece) {
    const std::int64_t last = std::min(end, (piece + 1) * kPoisonPiece);
    for (std::int64_t word = piece * kPoisonPiece; word < last; word += 8) {
      const std::uint64_t value = poison_word(begin + word);
      std::memcpy(bytes.data() + word, &value, 8);
    }
  });
}

// The end of the last word that is no poison, else `begin`.
std::int64_t changed_end(std::span<const std::byte> bytes, std::int64_t begin) {
  for (auto at = static_cast<std::int64_t>(bytes.size()) - 8; at >= 0; at -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    if (word != poison_word(begin + at)) return begin + at + 8;
  }
  return begin;
}

}  // namespace

Audit::Audit(const Program& program, const Graph& graph, Device& device, Bytes mapped)
    : program_(program), graph_(graph), device_(device), mapped_(mapped), checker_(mapped), behind_(kSentinelBytes) {}

void Audit::enter(Phase phase) {
  close_phase();
  phase_ = phase;
  time_ = 0;
  ran_.clear();
  library_end_ = 0;
  accesses_.clear();
  rings_.clear();
  poison();
}

// True after the first micro-step of a window, whose accumulators are then state.
bool Audit::within_window() const { return phase_ == Phase::steady || reads_window(graph_, phase_); }

// True if the update ran without a micro-step of its phase.
bool Audit::only_updated() const { return program_.section_of(*ran_.front()) == Section::update; }

// A pass of a training that answers from caches: its runs do not add up.
bool Audit::answers() const {
  if (program_.caches.empty() || phase_ < Phase::forward || phase_ == Phase::save || reads_window(graph_, phase_)) return false;
  return !graph_.sums(section_of(phase_));
}

// Poisons all bytes without state. State is persistent values and, in a later micro-step of a window, its accumulators, and in a
// pass that answers the caches.
void Audit::poison() {
  std::vector<std::pair<std::int64_t, std::int64_t>> kept;
  const auto keep = [&](const std::vector<Operand>& operands) {
    for (const Operand& operand : operands)
      kept.emplace_back(operand.offset.n, align_up(operand.offset + operand.bytes, kAlignment).n);
  };
  if (phase_ != Phase::load) keep(program_.persistent);
  if (within_window()) keep(program_.window);
  if (answers()) keep(program_.caches);
  std::sort(kept.begin(), kept.end());
  const std::int64_t end = mapped_.n;
  std::int64_t at = 0;
  const auto fill = [&](std::int64_t begin, std::int64_t stop) {
    if (begin >= stop) return;
    device_.write(bytes_between(begin, stop), [&](std::span<std::byte> part) {
      plimsoll::poison(part, begin);
      begin += static_cast<std::int64_t>(part.size());
    });
  };
  for (const auto& [begin, stop] : kept) {
    fill(at, begin);
    at = std::max(at, stop);
  }
  fill(at, end);
}

// State, which was not poisoned, counts as changed.
Bytes Audit::changed_height() const {
  std::int64_t state = phase_ == Phase::load ? 0 : top_of(program_.persistent);
  if (within_window()) state = std::max(state, top_of(program_.window));
  if (answers()) state = std::max(state, top_of(program_.caches));
  std::int64_t height = state, begin = state;
  device_.read(bytes_between(state, mapped_.n), [&](std::span<const std::byte> part) {
    if (const std::int64_t end = changed_end(part, begin); end > begin) height = align_up(Bytes{end}, kAlignment).n;
    begin += static_cast<std::int64_t>(part.size());
  });
  return Bytes{std::max(height, library_end_)};
}

// A byte lives from a write to the last read before the next write; a byte read before any write lives from the start:
//   accesses   . w . r . r w .      ; r read, w write
//   alive        - - - - - -
//   accesses   . . r . . w . r
//   alive      - - -     - - -
// State that outlives the phase lives through all of it, even if the phase writes it before reading it.
std::vector<std::int64_t> Audit::live_bytes() const {
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
  if (answers()) hold(program_.caches, 0);
  if (phase_ == Phase::first && program_.rounds > 1) hold(program_.window, -1);
  if (reads_window(graph_, phase_)) hold(program_.window, 0);
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
  std::partial_sum(delta.begin(), delta.end(), delta.begin());
  delta.pop_back();
  return delta;
}

void Audit::close_phase() {
  if (time_ == 0) return;
  const auto [place, is_new] = results_.try_emplace(phase_);
  PhaseAudit& result = place->second;
  result.phase = phase_;
  result.name = name(graph_, phase_);
  result.partial = (is_new || result.partial) && only_updated();
  result.arena = std::max(result.arena, changed_height());
  const std::vector<std::int64_t> live = live_bytes();
  for (std::size_t i = 0; i < live.size(); ++i) {
    Bytes& most = result.live_at[ran_[i]];
    most = std::max(most, Bytes{live[i]});
    result.live = std::max(result.live, most);
  }
}

std::vector<PhaseAudit> Audit::phases() {
  close_phase();
  std::vector<PhaseAudit> phases;
  for (const auto& [phase, result] : results_) phases.push_back(result);
  return phases;
}

void Audit::record(const Operand& operand, bool write) {
  if (operand.bytes.n == 0) return;
  accesses_.push_back({operand.offset.n, align_up(operand.offset + operand.bytes, kAlignment).n, time_, write});
}

// Plants no sentinel if an operand or the room of a copy in flight lies after the scratch.
void Audit::plant_sentinel(const RunKernel& kernel) {
  const std::int64_t begin = (kernel.scratch.offset + kernel.scratch.bytes).n;
  const auto free_of = [&](const std::vector<Operand>& operands) {
    return std::none_of(operands.begin(), operands.end(), [&](const Operand& operand) {
      return operand.offset.n < begin + kSentinelBytes && begin < (operand.offset + operand.bytes).n;
    });
  };
  std::vector<Operand> rooms;
  for (const auto& [event, room] : in_flight_) rooms.push_back(room);
  for (const auto& [event, exchange] : exchanges_) {
    for (const auto* parts : {&exchange->sends, &exchange->receives}) {
      for (const auto& part : *parts) rooms.push_back(part.memory);
    }
  }
  planted_ = free_of(kernel.inputs) && free_of(kernel.outputs) && free_of(rooms);
  if (!planted_) return;
  const Operand behind = bytes_between(begin, begin + kSentinelBytes);
  device_.read(behind, [&](std::span<const std::byte> bytes) { std::ranges::copy(bytes, behind_.begin()); });
  device_.write(behind, [](std::span<std::byte> bytes) { std::ranges::fill(bytes, kSentinel); });
}

void Audit::check_sentinel(const RunKernel& kernel) {
  if (!planted_) return;
  const std::int64_t begin = (kernel.scratch.offset + kernel.scratch.bytes).n;
  const Operand behind = bytes_between(begin, begin + kSentinelBytes);
  bool intact = true;  // a device that computes nothing reads nothing
  device_.read(behind, [&](std::span<const std::byte> bytes) {
    intact = intact && std::ranges::all_of(bytes, [](std::byte byte) { return byte == kSentinel; });
  });
  device_.write(behind, [&](std::span<std::byte> bytes) { std::ranges::copy(behind_, bytes.begin()); });
  if (!intact) {
    throw internal_error("audit",
                         fmt::format("{} wrote past its scratch of {} bytes", describe(kernel, graph_), kernel.scratch.bytes.n));
  }
}

void Audit::before(const Instruction& instruction, bool window_start) {
  const RangeChecker::Describe who = [&] { return describe(instruction, graph_); };
  const auto read = [&](const Operand& operand) {
    record(operand, false);
    checker_.read(operand.offset, operand.bytes, operand.value.index, who);
  };
  const auto read_all = [&](const std::vector<Operand>& operands) { std::for_each(operands.begin(), operands.end(), read); };
  match(
      instruction,
      [&](const RunKernel& kernel) {
        const bool starts = kernel.starts_round || (window_start && kernel.starts_window);
        for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
          const bool unread =
              starts && std::find(kernel.accumulators.begin(), kernel.accumulators.end(), i) != kernel.accumulators.end();
          if (!unread) read(kernel.inputs[i]);
        }
        // Outputs that are no ranges continue from the previous range.
        const auto& outputs = graph_.nodes[kernel.node].outputs;
        for (std::size_t i = 0; !kernel.range.first() && i < outputs.size(); ++i) {
          const Value& output = graph_.values[outputs[i]];
          if (!output.version_of.valid() && !output.copy_of.valid()) read(kernel.outputs[i]);
        }
        const bool received = graph_.nodes[kernel.node].op->exchange != Exchange::none;
        if (!kernel.range.first() || received) record(kernel.scratch, false);
        const ValueId pages = graph_.nodes[kernel.node].pages;
        if (pages.valid()) hold(program_.operands[pages]);
        if (kernel.scratch.bytes.n > 0) plant_sentinel(kernel);
      },
      [&](const StartCopy& copy) {
        if (copy.from.tier == 0) read(copy.from);
        if (copy.ring.bytes.n > 0) hold(copy.ring);
        in_flight_.emplace(copy.event, copy.room);
      },
      [&](const WaitCopy& wait) {
        wait.ring.bytes.n > 0 ? hold(wait.ring) : record(wait.room, false);
        in_flight_.erase(wait.event);
      },
      [&](const StartExchange& exchange) {
        for (const auto& part : exchange.sends) read(part.memory);
        for (const Operand& held : exchange.holds) record(held, false);
        if (!exchange.begins) record(exchange.room, false);
        exchanges_.emplace(exchange.event, &exchange);
      },
      [&](const WaitExchange& wait) {
        for (const Operand& held : wait.holds) record(held, false);
        record(wait.room, false);
        exchanges_.erase(wait.event);
      },
      [&](const Fetch& fetch) { read_all(fetch.reads); }, [&](const SaveState& save) { read_all(save.reads); },
      // The rings of a section end with it; the ring of early updates continues in the update.
      [&](const Feed& feed) {
        if (feed.section != Section::update) rings_.clear();
      },
      [](const LoadState&) {});
}

void Audit::after(const Instruction& instruction, bool) {
  const RangeChecker::Describe who = [&] { return describe(instruction, graph_); };
  const auto write = [&](const Operand& operand) {
    record(operand, true);
    checker_.write(operand.offset, operand.bytes, operand.value.index, who);
  };
  const auto write_all = [&](const std::vector<Operand>& operands) { std::for_each(operands.begin(), operands.end(), write); };
  match(
      instruction,
      [&](const RunKernel& kernel) {
        if (kernel.scratch.bytes.n > 0) {
          check_sentinel(kernel);
          record(kernel.scratch, true);
          checker_.write(kernel.scratch.offset, kernel.scratch.bytes, RangeChecker::kNothing, who);
          if (kernel.foreign_scratch) reach(kernel.scratch);
        }
        write_all(kernel.outputs);
      },
      [&](const StartCopy& copy) {
        if (copy.to.tier != 0) return;
        // The room is held whole, even if a last piece fills only a part.
        copy.ring.bytes.n > 0 ? hold(copy.ring) : record(copy.room, true);
        reach(copy.room);
        checker_.write(copy.to.offset, copy.to.bytes, copy.to.value.index, who);
      },
      [&](const Feed& feed) { write_all(feed.writes); }, [&](const LoadState& load) { write_all(load.writes); },
      [&](const StartExchange& exchange) {
        if (exchange.begins) record(exchange.room, true);
        for (const auto& part : exchange.receives) write(part.memory);
      },
      [](const WaitExchange&) {}, [](const WaitCopy&) {}, [](const Fetch&) {}, [](const SaveState&) {});
  ran_.push_back(&instruction);
  ++time_;
}

// A ring is held whole and without a break, also between the transfers of its slots.
void Audit::hold(const Operand& ring) { record(ring, rings_.insert(ring.value).second); }

void Audit::reach(const Operand& operand) {
  library_end_ = std::max(library_end_, align_up(operand.offset + operand.bytes, kAlignment).n);
}

}  // namespace plimsoll
