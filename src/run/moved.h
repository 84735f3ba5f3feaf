// What the copies of a program move to and from a tier.
#pragma once

#include <cstddef>
#include <vector>

#include "device/tier_store.h"
#include "program/program.h"

namespace plimsoll {

struct Moved {
  std::vector<TierStore::Piece> pieces;  // by offset, each once
  std::size_t events = 0;                // their numbers are smaller
};

Moved moved_by(const Program& program, std::size_t tier);

// What a run writes there, in whole blocks, as a store writes its pieces.
struct Written {
  Bytes load;    // the parameters that rest there, each once; state begins as zeros, which nobody writes
  Bytes update;  // a window and its update
};
Written written_by(const Program& program, const Graph& graph, std::size_t tier);

}  // namespace plimsoll
