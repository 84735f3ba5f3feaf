// The micro-step as a chain of regions. The forward ops are cut at every place where a single value crosses that a backward op
// reads. A region is the ops between two cuts and the backward ops of their gradients. Other ops belong to the region before them
// in time.
#pragma once

#include <vector>

#include "plan/replays/problem.h"

namespace plimsoll::regions {

inline constexpr int kOutside = -1;  // before the first region's forward pass, after its backward pass
inline constexpr int kBetween = -2;  // after the last region's forward pass, before its backward pass: the loss

struct Regions {
  std::vector<int> of;                // by op: its region, or one of the two above
  std::vector<std::vector<int>> ops;  // by region: its ops, ascending
  int turn = 0;                       // the first op after the forward passes of all regions

  int count() const { return static_cast<int>(ops.size()); }
};

// If long-lived values cross a stretch of more than 24 forward ops, the longest-lived ones are carried across its cuts and do
// not count. Values of at most 4 KiB never count. Regions with interleaved backward passes become one region. With narrow
// paging no cut lies within a unit.
Regions find_regions(const replays::Problem& problem);

// The ends of stretches, as places in the forward order. Cuts lie at all places that at most one value crosses, of any size
// and with any reader. Values are carried across stretches that are longer than 24 ops and than a quarter of all ops.
std::vector<int> find_cuts(const replays::Problem& problem);

}  // namespace plimsoll::regions
