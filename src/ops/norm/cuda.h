// The rows of a norm's backward pass on a GPU. Blocks take `teams` rows each, in turns over all rows, and write their sums for
// the gradients of the weights into scratch. Everything depends on the shape alone.
#pragma once

#include <algorithm>

#include "base/ceil_div.h"
#include "ops/kernel.h"
#include "ops/norm/norm.h"

namespace plimsoll {

struct CudaNormLayout {
  std::int64_t rows, width;
  std::int64_t sums;    // gradients of weights that are made
  int packs = 0;        // packs of four columns of a row in a thread; 0: rows are too wide for registers, or no multiple of four
  int team = 0;         // threads per row
  int teams = 8;        // rows of a block at a time
  std::int64_t groups;  // groups of rows, one for each block; the rows of turn t begin with row t * groups * teams

  static constexpr int kMostPacks = 4, kMostThreads = 512;
  static constexpr std::int64_t kColumns = 32;  // columns of a block whose rows are not held; a warp has a row of them

  // Threads of a block; few enough that two blocks of up to two packs share the registers of a multiprocessor.
  static constexpr int most_threads(int packs) { return packs < kMostPacks ? 448 : kMostThreads; }

  // `held`: threads may hold a row in registers.
  CudaNormLayout(std::int64_t rows, std::int64_t width, std::int64_t sums, bool held = true)
      : rows(rows), width(width), sums(sums) {
    if (held && width % 4 == 0 && width <= 4 * kMostPacks * kMostThreads) {
      packs = width <= 128 ? 1 : width <= 8 * most_threads(2) ? 2 : kMostPacks;
      team = static_cast<int>(round_up(ceil_div(width, std::int64_t{4} * packs), std::int64_t{32}));
      teams = most_threads(packs) / team;
    }
    const std::int64_t most = packs == 0 ? kSmallBlocks / ceil_div(width, kColumns) : packs < kMostPacks ? kBlocks : kBlocks / 2;
    groups = std::clamp(ceil_div(rows, std::int64_t{teams}), std::int64_t{1}, std::max(std::int64_t{1}, most));
  }
  // Shared memory of a block, to add up the sums of its teams.
  Bytes shared() const { return Bytes{teams == 1 ? 0 : teams * sums * width * 4}; }
  static constexpr std::size_t kMostShared = std::size_t{2} * 2 * (kMostThreads / 2 * 4 * kMostPacks) * 4;  // two teams
  Bytes scratch() const { return Bytes{groups * sums * width * 4}; }

 private:
  static constexpr std::int64_t kBlocks = 264, kSmallBlocks = 1056;  // blocks that fill a GPU of 132 multiprocessors
};

inline CudaNormLayout cuda_layer_norm_layout(const KernelRequest& backward) {
  const Rows x(backward.inputs[1]);
  return {x.rows, x.width, backward.attributes->as<ops::LayerNormBackwardAttributes>().sums()};
}

inline Bytes cuda_layer_norm_scratch(const KernelRequest& request) { return cuda_layer_norm_layout(request).scratch(); }

}  // namespace plimsoll
