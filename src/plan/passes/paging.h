// What rests on other tiers, as a rewrite of the graph: optimizer state of more than a disk's block, of the blocks also
// parameters and accumulators, and tables. Updates act on ranges, and so do the ops that read tables: what they need of a range
// comes into a slot of pages, is read or updated there and goes back, while the slots beside it are on their way. Which bytes
// move when is the program's business (program/stream.h); the graph says where they rest and through which room they pass. What
// kernels of the blocks need is fetched whole (plan/passes/fetching.h).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "plan/machine.h"
#include "plan/units.h"

namespace plimsoll {

// Pages are multiples of so many elements.
inline constexpr std::int64_t kPageStep = 1 << 15;
// A page of 1 MiB takes the measured disk 1 ms, ten times its latency; 128 KiB as long as its latency. Four slots: two on their
// way in, one being updated, one on its way out.
inline constexpr std::int64_t kPageSlots = 4, kLargePage = 1 << 18, kSmallPage = kPageStep;

struct Paging {
  std::int64_t page = 0;                          // elements of a transfer; 0: everything stays where kernels run
  std::int64_t slots = 0;                         // of ranges: some on their way in, one being updated, one on its way out
  bool parameters = false, accumulators = false;  // of the blocks, too
  // Blocks that keep theirs all the same, spread evenly among the others: parameters and accumulators where those leave, else
  // their optimizer state.
  int resident = 0;
  bool tables = false;    // parameters outside the blocks, and their accumulators, too: whole, or in ranges where ops read those
  bool narrow = false;    // of a block one matrix at a time is on its way, and not all of the next one
  int activations = 0;    // first blocks whose inputs rest there between the passes
  Bytes near = kAllNear;  // of all this so much rests on tier 1, the rest on tier 2

  static constexpr Bytes kAllNear{std::numeric_limits<std::int64_t>::max()};
  bool active() const { return page > 0; }
  // True if only the number of blocks that keep their values differs, and what follows from that number.
  bool like(const Paging& other) const {
    Paging same = other;
    same.resident = resident, same.near = near;
    return *this == same;
  }
  friend bool operator==(const Paging&, const Paging&) = default;
};

// Marks what rests on which tier, and gives the nodes that stream it the room for the pages. Ids of values keep their meaning.
// Nearest is what moves most often: parameters, then accumulators, then optimizer state. Of state that an update reads together
// the first one is nearer for every update, so that both links are busy in each; of equals what is needed first.
Graph apply_paging(const Graph& graph, const std::vector<Unit>& units, const Paging& paging);

// Elements of a page: those of the paging, or fewer where nothing that streams is as large or ranges are no multiples of it.
std::int64_t page_elements(const Graph& graph, const Paging& paging);

// How a node works on ranges of its inputs, and how many elements of each it is handed at a time.
RangeRule ranges_of(const Graph& graph, const Node& node);
std::int64_t range_elements(const Graph& graph, const Node& node, std::int64_t page);
// The room of a slot for each of its elements: of all that one node streams, the most that any of these do.
Bytes slot_bytes(const Graph& graph, const std::vector<NodeId>& nodes);
// A page of what has elements of that type.
inline Bytes page_bytes(std::int64_t page, DType dtype) { return Bytes{page * size_of(dtype)}; }

// Whether the paging leaves a block what is its own, of so many blocks.
bool stays(const Paging& paging, int block, int blocks);

// The block that alone reads a parameter, also of its accumulator; -1 for all other values. Those that are a small part of their
// block do not count (outside the blocks, of the largest one): a transfer of theirs would be nothing but latency.
PerValue<int> units_of_values(const Graph& graph, const std::vector<Unit>& units);

// What updates change, with each value of a role that the same update reads; both by where they come from (origin_of).
struct UpdateInput {
  ValueId changed, read;
};
std::vector<UpdateInput> update_inputs(const Graph& graph, Role role);

// What a node streams: its inputs that do not rest where kernels run. None of a transfer.
struct StreamedInput {
  std::size_t input = 0;
  bool changes = false;  // and goes back
  bool begins = false;   // the first micro-step of a window writes it: nothing has to come in for that
};
std::vector<StreamedInput> streamed_inputs(const Graph& graph, const Node& node);

// Transfers that run at a time, and the staging of each: a transfer moves aligned blocks, and memory need not be aligned.
inline constexpr int kTransfers = 4;
inline constexpr Bytes kTransferStaging{512 << 10};
// Outside the arenas of a tier: staging, with one more for checkpoints, threads, the kernel's ring where there is one, and per
// piece its instructions and its checksum. The process that moves pages pays for it: on tier 0, or on 1 where a host is there; a
// GPU for the page tables of what is pinned there.
// Empty where nothing is paged.
std::vector<ReserveItem> paging_reserve(const Graph& graph, const Paging& paging, const Machine& machine, std::size_t tier);
inline constexpr const char* kPiecesItem = "transfers: pieces";  // the item that grows with what moves

// Where each value past the first tier lies: one after the other on its tier, each on a boundary of kStoredAlignment.
inline constexpr Bytes kStoredAlignment{4096};
struct StoredLayout {
  PerValue<Bytes> offsets;             // of persistent values; -1 for those of tier 0
  std::array<Bytes, kMostTiers> ends;  // of the tiers' arenas

  Bytes total() const { return ends[1] + ends[2]; }
};
StoredLayout stored_layout(const Graph& graph);
// Whether each tier past the first has room for its arena; `beyond`: what they have, nearest first.
bool has_room(const StoredLayout& stored, const Paging& paging, const std::vector<Bytes>& beyond);

}  // namespace plimsoll
