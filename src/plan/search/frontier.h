// The front of a set of candidates, to test if other candidates add to it; and a selection of rungs from a long ladder.
#pragma once

#include <array>
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
  // True if, for each of these and in each measure, a candidate of the front has no more bytes and is slower by at most this
  // share.
  bool covers(std::span<const Candidate> candidates, double slack) const;

 private:
  using Seconds = std::map<Bytes, double>;  // they fall as the bytes rise
  static void add(Seconds& front, Bytes bytes, double seconds);

  std::array<Seconds, kMeasures.size()> seconds_;
};

// Indices of at most `count` rungs, in the order of the ladder and without its two ends. They lie evenly by place. The place
// of a rung is its share of the way down in log bytes plus its share of the way up in seconds. So rungs come from the steep
// end near the floor as well as from the flat end near the ceiling.
std::vector<std::size_t> spread_rungs(const std::vector<Candidate>& ladder, int count);

}  // namespace plimsoll
