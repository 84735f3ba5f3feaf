// The attributes that ops of several families share.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

// Norms add up in tiles of so many elements, so that ranges of whole tiles sum to the same bits.
inline constexpr std::int64_t kNormTile = 1 << 15;

// Of a table over a vocabulary, the rows that ops take at a time where not all are here: a canonical tile of the loss.
inline constexpr std::int64_t kTableRows = 1024;

struct NoAttributes {
  friend bool operator==(const NoAttributes&, const NoAttributes&) = default;
  template <class V>
  void fields(V&&) const {}
};

// Of a gradient op: with `accumulate` its last inputs are the accumulators that it updates in place, else the results are plain
// gradients.
struct AccumulateAttributes {
  bool accumulate = false;
  friend bool operator==(const AccumulateAttributes&, const AccumulateAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("accumulate", accumulate);
  }
};

}  // namespace plimsoll::ops
