// Recomputation on any graph, as a problem by itself: ops in an order that can run, and the items that they read and write. Each
// op runs once at its place; one that is replayable may run again, earlier than a reader, so that what it makes need not stay.
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

// A result may have the bytes of something that the op reads, if that is equally large and nothing reads it later. A result takes
// one item's bytes, and an item gives them to one result: in the order of the results, to each the first that it may take.
struct Overwrite {
  int read = 0, written = 0;  // items
};

enum class Pass : std::uint8_t { other, forward, backward };  // other: feeds, transfers, updates

// What an op needs of another tier: it is on its way before, and goes back where the op changes it.
struct Paged {
  int value = 0;
  std::int64_t bytes = 0;
  bool written = false;
};

struct Op {
  std::vector<int> reads, writes;  // items, each once; what is written was not there before
  std::vector<Overwrite> overwrites;
  double seconds = 0;
  std::int64_t scratch = 0;  // bytes beside the items, while it runs
  bool replayable = false;
  int until = std::numeric_limits<int>::max();  // it may run again before this op and earlier ones: the op changes what it reads
  Pass pass = Pass::other;
  int of = -1;    // of a backward op: the forward op whose gradient it computes; -1: nobody said
  int like = -1;  // the op that it repeats for another micro-batch: both run again, or none; -1: decided on by itself
  int unit = -1;  // the unit that it works for
  std::vector<Paged> paged;
};

struct Problem {
  std::vector<std::int64_t> items;  // bytes; an item that no op writes is there from the beginning and takes none
  std::vector<Op> ops;
  // By item, or empty: it leaves after the forward pass and is there again when the backward pass enters its reader's unit.
  std::vector<char> away;
  // Whether what is needed of another tier comes one by one, and not for a unit at once; whether what is changed there comes in
  // before.
  bool narrow = false, adds = false;
};

// An op that runs again, right before the first run of another one. Of several before the same op the order counts.
struct Replay {
  int op = 0, before = 0;
  friend auto operator<=>(const Replay&, const Replay&) = default;
};

struct Outcome {
  std::int64_t peak = 0;  // most live bytes, scratch included
  double seconds = 0;     // of all runs
};

// What a schedule comes to: a copy of an item lives from the op that makes it to the last one that reads it before it is made
// again. Nothing where an op reads what is not there, or runs again without being replayable or behind `until`.
// `live`, if given: by op, the most bytes that are live at it and at the runs right before it.
std::optional<Outcome> evaluate(const Problem& problem, std::span<const Replay> replays,
                                std::vector<std::int64_t>* live = nullptr);

// What the most demanding op needs: no schedule is smaller.
std::int64_t largest_working_set(const Problem& problem);

}  // namespace plimsoll::replays
