// The front of some candidates, which shows if others add to them; and a selection of rungs for a ladder that is too long to
// show.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "plan/search/candidate.h"

namespace plimsoll {

// The fastest candidate for each number of bytes.
class Front {
 public:
  void add(std::span<const Candidate> candidates);
  // True if, for each of these, a candidate of the front holds no more bytes and is slower by at most this share.
  bool covers(std::span<const Candidate> candidates, double slack) const;

 private:
  std::map<Bytes, double> seconds_;  // by bytes held: falling
};

// Indices of at most `count` rungs between the two ends, without the ends, in the ladder's order. A rung's place is its share
// of the way down in bytes (in ratios: ceilings may be many times the floor) plus that of the way up in seconds, so that neither
// the steep end near the floor nor the flat one near the ceiling is left out.
std::vector<std::size_t> spread_rungs(const std::vector<Candidate>& ladder, int count);

}  // namespace plimsoll
