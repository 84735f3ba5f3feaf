// The attributes that ops of several families share.
#pragma once

#include <cstdint>

#include "graph/attributes.h"

namespace plimsoll::ops {

// Elements of a tile of the sums of norms; ranges of whole tiles give the same bits.
inline constexpr std::int64_t kNormTile = 1 << 15;

// Rows of a tile of a table over a vocabulary. Ranges of the table are whole tiles of the loss.
inline constexpr std::int64_t kTableRows = 1024;

struct NoAttributes {
  template <class V>
  void fields(V&&) const {}
};

// Attributes of a gradient op: with `accumulate` its last inputs are the accumulators that it updates in place, else the results
// are plain gradients.
struct AccumulateAttributes {
  bool accumulate = false;
  PLIMSOLL_FIELDS(accumulate)
};

}  // namespace plimsoll::ops
