// The attributes that ops of several families share.
#pragma once

#include <cstdint>

#include "graph/attributes.h"

namespace plimsoll::ops {

// Elements of a tile in which norms add up, so that ranges of whole tiles sum to the same bits.
inline constexpr std::int64_t kNormTile = 1 << 15;

// Rows of a table over a vocabulary that ops take at a time if the table comes in ranges: a canonical tile of the loss.
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
