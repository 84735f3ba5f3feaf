// Exchanges between ranks as nodes of the graph. Each rank has one part of a value, its shard. A node names the bounds of all
// shards, so that every rank knows which bytes come from whom; sums are taken in the order of ranks. program/exchanges.h writes
// the messages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"

namespace plimsoll {

// Rank k has the elements [cuts[k], cuts[k + 1]) of a value.
struct ExchangeAttributes {
  std::int64_t rank = 0;
  std::vector<std::int64_t> cuts;
  Shape shape = {};  // of fetched shards
  DType dtype = DType::f32;
  PLIMSOLL_FIELDS(rank, cuts, shape, dtype)

  std::int64_t ranks() const { return static_cast<std::int64_t>(cuts.size()) - 1; }
  std::int64_t begin(std::int64_t of) const { return cuts[static_cast<std::size_t>(of)]; }
  std::int64_t end(std::int64_t of) const { return cuts[static_cast<std::size_t>(of) + 1]; }
  std::int64_t elements(std::int64_t of) const { return end(of) - begin(of); }
};

// A part of a tensor as a flat value: its elements [begin, begin + elements).
struct ShardAttributes {
  std::int64_t begin = 0, elements = 0;
  PLIMSOLL_FIELDS(begin, elements)
};

// The tensor around a value, which is its part from element `begin` on.
struct WholeAttributes {
  std::int64_t begin = 0;
  Shape shape;
  PLIMSOLL_FIELDS(begin, shape)
};

// Numbers of a value that are added one after the other: counts[i] elements from begins[i] on.
struct PartsAttributes {
  std::vector<std::int64_t> begins, counts;
  PLIMSOLL_FIELDS(begins, counts)
};

struct NothingAttributes {
  std::int64_t elements = 0;  // 0: no output
  PLIMSOLL_FIELDS(elements)
};

// sum_shards: (x) -> x, with the sum over all ranks in the own shard; the others hold no result.
// reduce_shards: (x, sum) -> sum: adds the sum over all ranks of the own shard of x to `sum`, once a round. A rank without a
//   shard holds one number, a zero, so that the exchange has a place in the order of its nodes, too.
// gather_shards: (x, after) -> x, complete on all ranks. `after`: a value that is ready on all ranks before the own shard may be.
// fetch_shards: (shard) -> x, complete on all ranks, in the shape and the type of the attributes.
// refresh_shards: (shard, x, after...) -> x, complete on all ranks, in its own type. `after`: as in gather_shards.
// gather_values: (f64[..]...) -> f64[all]: the concatenation of the inputs lies at the own shard; zeros up to its end.
// sum_all: (x f64) -> x, the sum over all ranks, on every rank.
// shard, whole: views of a part, and of the tensor around a part.
// tile_squares: (x) -> f64[tiles]: the sum of squares of each kNormTile elements.
// add_parts: (x f64) -> f64[1].
// nothing: () -> zeros f64, or no output: in place of a node of another rank, so that nodes have the same number on all ranks.
extern const OpDef kSumShards, kReduceShards, kGatherShards, kFetchShards, kRefreshShards, kGatherValues, kSumAll, kShard, kWhole,
    kTileSquares, kAddParts, kNothing;

// Elements of a sum of shards that are in flight at once; a multiple of kNormTile.
inline constexpr std::int64_t kExchangeChunk = 1 << 16;
// Bytes of the received numbers of one chunk, from all other ranks; each begins at kAlignment.
Bytes chunk_bytes(const ExchangeAttributes& attributes, DType dtype);
// Chunks of the staging of a sum of shards: one is received while the other is added.
std::int64_t staged_chunks(const ExchangeAttributes& attributes);
// True if ranks exchange numbers in every round of a window.
bool exchanges_in_rounds(const Graph& graph);
// True if messages read or write this input of the node. Otherwise only its kernel does.
bool is_exchanged(const Node& node, std::size_t input);
// Bytes that a node sends.
Bytes sent_bytes(const OpDef& op, const Attributes& attributes, TypeSpan inputs, TypeSpan outputs);

}  // namespace plimsoll
