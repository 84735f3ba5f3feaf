// Optimizer state that rests on another tier, as a rewrite of the graph. Updates act on flat ranges, so the state of a range
// comes into a slot of pages, is updated there and goes back, while the slots beside it are on their way. Which bytes move when
// is the program's business (program/stream.h); the graph says where the state rests and through which room it passes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "plan/machine.h"

namespace plimsoll {

struct Paging {
  std::int64_t page = 0;   // elements of each state that a slot holds; 0: everything stays where kernels run
  std::int64_t slots = 0;  // in flight: some on their way in, one being updated, one on its way out

  bool active() const { return page > 0; }
  friend bool operator==(const Paging&, const Paging&) = default;
};

// Marks the optimizer state as resting on tier 1, and gives its updates the room for the pages. Ids of values keep their meaning.
Graph apply_paging(const Graph& graph, const Paging& paging);

// States that an update streams: its inputs that do not rest where kernels run.
std::vector<std::size_t> streamed_inputs(const Graph& graph, const Node& node);

// Transfers that run at a time, and the staging of each: a transfer moves aligned blocks, and memory need not be aligned.
inline constexpr int kTransfers = 4;
inline constexpr Bytes kTransferStaging{512 << 10};
// Outside the arena: staging, with one more for checkpoints, threads, the kernel's ring where there is one, and per piece its
// instructions and its checksum. Empty where nothing is paged.
std::vector<ReserveItem> paging_reserve(const Graph& graph, const Paging& paging, const Machine& machine);

// Where each value of tier 1 lies: one after the other, each on a boundary of kStoredAlignment.
inline constexpr Bytes kStoredAlignment{4096};
struct StoredLayout {
  PerValue<Bytes> offsets;  // of persistent values; -1 for those of other tiers
  Bytes end;                // of the tier's arena
};
StoredLayout stored_layout(const Graph& graph);

}  // namespace plimsoll
