// The places in which values of a program rest between their uses: one description for each class of values. Passes rewrite the
// graph by it, the simulator prices it, and plan files store it.
#pragma once

#include <cstdint>
#include <limits>

#include "base/bytes.h"

namespace plimsoll {

// Pages are multiples of this number of elements.
inline constexpr std::int64_t kPageStep = 1 << 15;
// A page of 1 MiB takes 1 ms on the measured disk, ten times its latency; 128 KiB takes one latency. Four slots: two on their way
// in, one being updated, one on its way out.
inline constexpr std::int64_t kPageSlots = 4, kLargePage = 1 << 18, kSmallPage = kPageStep;

struct Pages {
  std::int64_t elements = 0;  // of one transfer; 0: nothing leaves the first tier
  std::int64_t slots = 0;     // for ranges: some on their way in, one being updated, one on its way out

  friend bool operator==(const Pages&, const Pages&) = default;
};

// The resting place of one class of values. Kernels of blocks read whole copies; updates and readers of tables work on
// ranges.
struct Rest {
  bool beyond = false;  // on the tiers past the first
  int kept = 0;         // blocks whose values stay where kernels run, spread evenly among the others

  friend bool operator==(const Rest&, const Rest&) = default;
};
inline constexpr Rest kBeyond{.beyond = true};

struct Residency {
  Pages pages = {};
  Rest optimizer_state = {};                // in ranges; values larger than a disk block
  Rest parameters = {}, accumulators = {};  // of the blocks: whole
  Rest tables = {};        // parameters outside the blocks, and their accumulators: in ranges if all readers use ranges
  int inputs = 0;          // number of first blocks whose inputs rest beyond between the passes: whole
  bool by_matrix = false;  // one matrix of a block is in transfer at a time, not the whole next block
  Bytes near = kAllNear;   // room on tier 1 in bytes; values without room there are on tier 2

  static constexpr Bytes kAllNear{std::numeric_limits<std::int64_t>::max()};

  bool active() const { return pages.elements > 0; }
  bool moves_blocks() const { return parameters.beyond || accumulators.beyond; }
  // The number of blocks that keep values which leave the others: parameters and accumulators, or else optimizer state.
  int kept() const {
    return parameters.beyond ? parameters.kept : accumulators.beyond ? accumulators.kept : optimizer_state.kept;
  }
  void keep(int blocks) {
    if (!moves_blocks()) optimizer_state.kept = blocks;
    if (parameters.beyond) parameters.kept = blocks;
    if (accumulators.beyond) accumulators.kept = blocks;
  }
  // True if the two differ only in the number of blocks that keep their values, and in `near`, which follows from it.
  bool like(const Residency& other) const {
    Residency same = other;
    same.keep(kept());
    same.near = near;
    return *this == same;
  }
  friend bool operator==(const Residency&, const Residency&) = default;
};

}  // namespace plimsoll
