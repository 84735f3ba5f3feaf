// Ranks that train together, as a rewrite of a training graph (ZeRO, Rajbhandari et al., 2020, arXiv 1910.02054). Each parameter
// is cut into shards at multiples of kNormTile. A rank holds the optimizer's state of its shards alone. Gradients of a shard are
// added on its rank in the order of ranks, which updates the shard; then it goes to all others. Small tensors belong to one rank
// as a whole, as do those with an update that is not elementwise.
//
//   gradient -> sum_shards -> shard -> tile_squares -> gather_values -> add_parts -> clip
//                               |                                                     |
//   parameter, shard ------> update <-------------------------------------------------+
//                               |
//                             whole -> gather_shards -> parameter
//
// A parameter that all readers round to 16 bits rests as a shard, with a copy of the whole in 16 bits, which refresh_shards
// makes.
//
// In stage 2 the sum leaves the update for the micro-step. Gradients are those of one round. Right behind the last node that adds
// to a gradient, `reduce_shards` adds its sum over all ranks to the rank's own shard.
//
// In stage 3 parameters that are cut rest as shards as well, and so do frozen ones. `fetch_shards` brings all of one before its
// readers. No gather_shards follows its update. Small parameters, those of adapters, and those that belong to one rank stay whole
// on all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// The bounds of the shards of each trained parameter, in the order of parameters: rank k has [cuts[k], cuts[k + 1]).
struct ShardedParameter {
  ValueId parameter;
  std::vector<std::int64_t> cuts;
};

// Rewrites the update for one rank. Nodes and values of the other sections keep their numbers, which are the same on all ranks.
// The norm is the sum of its tiles in one order for every sharding. Sums of statistics are added over ranks.
// `stage`: of ZeRO, 1 to 3.
std::vector<ShardedParameter> shard_update(Graph& graph, RankShare share, std::int64_t stage = 1);

}  // namespace plimsoll
