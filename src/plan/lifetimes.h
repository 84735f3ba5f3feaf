// The exact byte simulator. From a graph, its timeline and the scratch of each kernel: which values share a buffer (in place,
// views, updates), when each buffer lives, and how many bytes live at each step of each phase. Everything that judges a plan asks
// here.
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
// Whether what a window sums lies in it.
bool is_accumulator(const Graph& graph, const Buffer& buffer);
// Of the buffer of a value.
inline Bytes aligned_bytes(const Value& value) { return align_up(value.bytes(), kAlignment); }

struct Lifetimes {
  PerId<BufferId, Buffer> buffers;
  PerValue<BufferId> buffer_of;   // invalid for values of no step (never read nor written)
  std::vector<BufferId> scratch;  // per step; invalid where none

  Bytes scratch_bytes(int step) const {
    const BufferId id = scratch[static_cast<std::size_t>(step)];
    return id.valid() ? buffers[id].bytes : Bytes{};
  }
};

// `scratch[step]`: bytes that the step needs beside its operands.
Lifetimes analyse(const Graph& graph, const Timeline& timeline, const std::vector<Bytes>& scratch);

// Whether a buffer lives at a step when that step belongs to the phase.
bool lives(const Buffer& buffer, int step, Phase phase);

struct LiveProfile {
  std::vector<Bytes> bytes;  // per step of the phase, from its first
  Bytes peak;
  int peak_step = 0;
};
LiveProfile live_profile(const Lifetimes& lifetimes, const Timeline& timeline, Phase phase);

// What a step reads and writes where kernels run, besides scratch. The first micro-step of a window does not read what it
// overwrites.
struct StepAccess {
  std::vector<ValueId> reads, writes;
};
StepAccess access_of(const Graph& graph, const Step& step, bool window_start);
// The same into lists that are there.
void find_access(const Graph& graph, const Step& step, bool window_start, StepAccess& access);

// Whether nothing has changed the value in this section yet: it is persistent, or a copy as it came in.
bool comes_from_before(const Graph& graph, ValueId value);

// Whether the node adds into a window's accumulator that nothing has written before it in this micro-step: on the first
// micro-step of a window it writes instead.
bool starts_window(const Graph& graph, const Node& node);
// Whether the node belongs to a copy that comes in to be added to: the first micro-step of a window has no use for it.
bool brings_what_is_written(const Graph& graph, const Node& node);

}  // namespace plimsoll
