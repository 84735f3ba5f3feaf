// Recomputation on any graph, as a problem by itself: ops in an order that can run, and the items that they read and write. Each
// op runs once at its place; a replayable op may run again before a later reader, so that its results need not stay.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace plimsoll::replays {

constexpr int kNone = -1;
constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A result may take the bytes of an item that the op reads, if their sizes are equal and nothing reads the item later. In the
// order of the results, each takes the first such item that no other result has taken.
struct Overwrite {
  int read = 0, written = 0;  // items
};

enum class Pass : std::uint8_t { other, forward, backward };  // other: feeds, transfers, updates

// A value on another tier that an op needs: it comes in before the op, and goes back if the op changes it.
struct Paged {
  int value = 0;
  std::int64_t bytes = 0;
  bool written = false;
};

struct Op {
  std::vector<int> reads, writes;  // items, each once; written items did not exist before
  std::vector<Overwrite> overwrites;
  double seconds = 0;
  std::int64_t scratch = 0;  // bytes in addition to the items, while it runs
  bool replayable = false;
  int until = std::numeric_limits<int>::max();  // the last op before which it may run again: that op changes its inputs
  Pass pass = Pass::other;
  int of = -1;    // for a backward op: the forward op whose gradient it computes; -1: unknown
  int like = -1;  // the op that it repeats for another micro-batch: both run again or neither; -1: decided by itself
  int unit = -1;  // the unit that it works for
  std::vector<Paged> paged;
};

struct Problem {
  std::vector<std::int64_t> items;  // bytes; an item that no op writes exists from the beginning and takes none
  std::vector<Op> ops;
  // By item, or empty: true if it leaves after the forward pass and is back when the backward pass enters its reader's unit.
  std::vector<char> away;
  // `narrow`: values from another tier come one by one, not for a whole unit at once. `adds`: changed values from another
  // tier come in before the ops that add to them; otherwise these ops write them.
  bool narrow = false, adds = false;
};

// An op that runs again, right before the first run of another one. The order of several replays before the same op counts.
struct Replay {
  int op = 0, before = 0;
  friend auto operator<=>(const Replay&, const Replay&) = default;
};

struct Outcome {
  std::int64_t peak = 0;  // most live bytes, scratch included
  double seconds = 0;     // of all runs
};

// The outcome of a schedule: a copy of an item lives from the op that makes it to the last reader before it is made again. None
// if an op reads a missing item, or runs again without being replayable or after `until`.
// `live`, if given: by op, the peak live bytes at it and at the replays right before it.
std::optional<Outcome> evaluate(const Problem& problem, std::span<const Replay> replays,
                                std::vector<std::int64_t>* live = nullptr);

// The working set of the largest op: a lower bound for every schedule.
std::int64_t largest_working_set(const Problem& problem);

}  // namespace plimsoll::replays
