// Sums of a few numbers over all ranks. They are taken in the order of ranks, so every rank has the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collective/gather.h"

namespace plimsoll {

class RankSums {
 public:
  // `most`: numbers of a call. The event is no other's.
  RankSums(Peers& peers, std::uint32_t event, std::size_t most);

  // Called by all ranks with as many numbers. Replaces each number by its sum.
  void run(std::span<double> numbers);

 private:
  Peers& peers_;
  std::size_t most_;
  Gather gather_;
};

}  // namespace plimsoll
