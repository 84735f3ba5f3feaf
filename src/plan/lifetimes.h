// The exact byte simulator. Its input is a graph, its timeline and the scratch of each kernel. It finds the values that share a
// buffer (in place, views, updates), the lifetime of each buffer, and the live bytes at each step of each phase. All code that
// judges a plan uses it.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/id.h"
#include "graph/graph.h"
#include "plan/timeline.h"

namespace plimsoll {

using BufferId = Id<struct BufferTag>;

struct Buffer {
  Bytes bytes;              // aligned
  int begin = 0, end = 0;   // steps of the timeline in which it lives, half-open
  int first_begin = 0;      // its begin in the phase `first`, where accumulators live only from their first write
  bool persistent = false;  // lives through the whole run: parameters, optimizer state, staging
  ValueId value;            // the first value in it; invalid for scratch
  std::string owner;        // role, or "kernel scratch"

  int begin_in(Phase phase) const { return phase == Phase::first ? first_begin : begin; }
};
// True if the buffer holds an accumulator of a window.
bool is_accumulator(const Graph& graph, const Buffer& buffer);
// The size of a value's buffer.
inline Bytes aligned_bytes(const Value& value) { return align_up(value.bytes(), kAlignment); }

struct Lifetimes {
  PerId<BufferId, Buffer> buffers;
  PerValue<BufferId> buffer_of;   // invalid for values that no step reads or writes
  std::vector<BufferId> scratch;  // per step; invalid where none

  Bytes scratch_bytes(int step) const {
    const BufferId id = scratch[static_cast<std::size_t>(step)];
    return id.valid() ? buffers[id].bytes : Bytes{};
  }
};

// `scratch[step]`: bytes that the step needs in addition to its operands.
Lifetimes analyse(const Graph& graph, const Timeline& timeline, const std::vector<Bytes>& scratch);

// True if a buffer lives at a step of the phase.
bool lives(const Buffer& buffer, int step, Phase phase);

struct LiveProfile {
  std::vector<Bytes> bytes;  // per step of the phase, from its first
  Bytes peak;
  int peak_step = 0;
};
LiveProfile live_profile(const Lifetimes& lifetimes, const Timeline& timeline, Phase phase);

// The values on tier 0 that a step reads and writes, without scratch. The first micro-step of a window does not read values that
// it overwrites.
struct StepAccess {
  std::vector<ValueId> reads, writes;
};
StepAccess access_of(const Graph& graph, const Step& step, bool window_start);
// The same, into existing lists.
void find_access(const Graph& graph, const Step& step, bool window_start, StepAccess& access);

// True for the accumulator of one round: its first writer writes it in every round, and its last reader ends it.
bool is_of_round(const Value& value);

// True if nothing has changed the value in this section yet: it is persistent, an accumulator of one round, or an unchanged copy
// from another tier.
bool comes_from_before(const Graph& graph, ValueId value);

// True if the node is the first of its micro-step to add to an accumulator. In the first micro-step of a window it writes
// instead.
bool starts_window(const Graph& graph, const Node& node);
// True if it writes in every round.
bool starts_round(const Graph& graph, const Node& node);
// True if the node fetches a copy that others then add to. The first micro-step of a window does not need it.
bool brings_what_is_written(const Graph& graph, const Node& node);

}  // namespace plimsoll
