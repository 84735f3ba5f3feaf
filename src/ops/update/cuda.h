// Scratch of sums over flat arrays on a GPU, known without a GPU. Each canonical tile writes its sums into scratch, in fp64. They
// are added up with the array's last range, so that ranges change no bit. An array of one tile writes its result at once.
#pragma once

#include "ops/attributes.h"
#include "ops/kernel.h"
#include "ops/update/update.h"

namespace plimsoll {

inline constexpr std::int64_t kCudaTile = 1 << 12;         // elements of a tile of an update
inline constexpr std::int64_t kCudaSquaresTile = 1 << 13;  // elements of a tile of a plain sum of squares
static_assert(ops::kNormTile % kCudaTile == 0 && ops::kNormTile % kCudaSquaresTile == 0, "no range ends within a tile");

inline Bytes cuda_tile_sums(std::int64_t elements, std::int64_t tile, int sums) {
  const std::int64_t tiles = ceil_div(elements, tile);
  return tiles == 1 ? Bytes{} : Bytes{tiles * sums * static_cast<std::int64_t>(sizeof(double))};
}

inline Bytes cuda_sum_of_squares_scratch(const KernelRequest& request) {
  return cuda_tile_sums(request.inputs[0].shape.elements(), kCudaSquaresTile, 1);
}
inline Bytes cuda_update_scratch(const KernelRequest& request) {
  return cuda_tile_sums(request.inputs[ops::UpdateOperands::parameter()].shape.elements(), kCudaTile, 2);
}

}  // namespace plimsoll
