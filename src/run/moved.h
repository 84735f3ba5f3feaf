// The pieces that the copies of a program move to and from a tier.
#pragma once

#include <cstddef>
#include <vector>

#include "device/tier_store.h"
#include "program/program.h"

namespace plimsoll {

struct Moved {
  std::vector<TierStore::Piece> pieces;  // by offset, each once
  std::size_t events = 0;                // upper bound of the event numbers, exclusive
};

Moved moved_by(const Program& program, std::size_t tier);

// The bytes that a run writes to a tier, in whole blocks like a store's pieces.
struct Written {
  Bytes load;    // the tier's parameters, each once; state begins as zeros without a write
  Bytes update;  // a window and its update
};
// The bytes that instructions read from a tier, in whole blocks.
Bytes read_by(const std::vector<Instruction>& section, std::size_t tier);
Written written_by(const Program& program, const Graph& graph, std::size_t tier);

}  // namespace plimsoll
