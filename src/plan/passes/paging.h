// Values that rest on other tiers, as a rewrite of the graph: optimizer state larger than a disk block, parameters and
// accumulators of the blocks, and tables. Updates and ops that read tables act on ranges: the pages of a range come into a slot,
// are read or updated there and go back, while other slots are in transfer. The graph says where values rest and which slots they
// pass; the program decides when bytes move (program/stream.h). Values for kernels of the blocks are fetched whole
// (plan/passes/fetching.h).
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "plan/machine.h"
#include "plan/residency.h"
#include "plan/units.h"

namespace plimsoll {

// Sets the tier of each value, and gives nodes that stream the room for their pages. Ids of values keep their meaning. The
// values that move most often are nearest: parameters, then accumulators, then optimizer state. The state that updates read
// first is nearer than the state that they read second, so that each update keeps both links busy. Ties go to the value that
// is needed first.
Graph apply_paging(const Graph& graph, const std::vector<Unit>& units, const Residency& residency);

// Elements of a page: those of `residency`. Fewer, if no value on another tier is as large, or if neither a page nor a range
// is a multiple of the other.
std::int64_t page_elements(const Graph& graph, const Residency& residency);

// The rule by which a node works on ranges of its inputs, and the number of elements of each range.
RangeRule ranges_of(const Graph& graph, const Node& node);
std::int64_t range_elements(const Graph& graph, const Node& node, std::int64_t page);
// Bytes of a slot per element: the sum over the values that a node streams, the largest over these nodes.
Bytes slot_bytes(const Graph& graph, const std::vector<NodeId>& nodes);
// Bytes of a page with elements of that type.
inline Bytes page_bytes(std::int64_t page, DType dtype) { return Bytes{page * size_of(dtype)}; }

// True if the nodes of a section that stream share their pages.
bool streams_as_one(const Graph& graph, Section section);

// True if block number `block` of `blocks` keeps its values. Blocks that do are spread evenly.
bool stays(const Residency& residency, int block, int blocks);

// By value: the only unit that reads a parameter, also for its accumulator; -1 for other values. A parameter that is a small
// part of its unit (outside the blocks: of the largest block) has -1, since its transfer would be latency alone.
PerValue<int> units_of_values(const Graph& graph, const std::vector<Unit>& units);

// Pairs of a value that an update changes and a value of `role` that the same update reads; both by their origin (origin_of).
struct UpdateInput {
  ValueId changed, read;
};
std::vector<UpdateInput> update_inputs(const Graph& graph, Role role);

// The inputs that a node streams: those that do not rest on tier 0. None for a transfer.
struct StreamedInput {
  std::size_t input = 0;
  bool changes = false;  // by the node, so that it goes back
  bool begins = false;   // the first micro-step of a window writes it without fetching it
};
std::vector<StreamedInput> streamed_inputs(const Graph& graph, const Node& node);

// Concurrent transfers, and the staging of each: a transfer moves aligned blocks, and memory need not be aligned.
inline constexpr int kTransfers = 4;
inline constexpr Bytes kTransferStaging{512 << 10};
// The bytes that paging takes on a tier outside its arena: staging (one more for checkpoints), threads, the ring of io_uring,
// and per piece its instructions and checksum. The process that moves pages pays for it: on tier 0, or on tier 1 with a host.
// A GPU pays for the page tables of pinned host memory. Empty without paging.
std::vector<ReserveItem> paging_reserve(const Graph& graph, const Residency& residency, const Machine& machine, std::size_t tier);
inline constexpr const char* kPiecesItem = "transfers: pieces";  // the item that grows with the moved bytes

// The offset of each value past the first tier: one after the other on its tier, each aligned to kStoredAlignment.
inline constexpr Bytes kStoredAlignment{4096};
struct StoredLayout {
  PerValue<Bytes> offsets;  // of persistent values; -1 for those of tier 0
  PerTier<Bytes> ends;      // of the tiers' arenas

  Bytes total() const { return std::accumulate(ends.begin(), ends.end(), Bytes{}); }
};
StoredLayout stored_layout(const Graph& graph);
// True if each tier past the first has room for its arena; `beyond`: bytes of these tiers, nearest first.
bool has_room(const StoredLayout& stored, const Residency& residency, const std::vector<Bytes>& beyond);

}  // namespace plimsoll
