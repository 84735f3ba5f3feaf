// The bounds of the shards of tensors, so that ranks hold about as many elements each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll {

struct CutTensor {
  std::int64_t elements = 0;
  bool divisible = false;  // else it belongs to one rank
};

// True if every rank has a part of the tensor: it is divisible, with a tile (kNormTile elements) for each.
bool is_cut(const CutTensor& tensor, std::int64_t ranks);

// The cuts of each tensor: rank k has the elements [cuts[k], cuts[k + 1]). Shards begin at multiples of kNormTile. Tensors that
// are not cut belong to one rank.
std::vector<std::vector<std::int64_t>> shard_bounds(const std::vector<CutTensor>& tensors, std::int64_t ranks);

// The bounds of one tensor, tile by tile.
std::vector<std::int64_t> even_bounds(std::int64_t elements, std::int64_t ranks);

}  // namespace plimsoll
