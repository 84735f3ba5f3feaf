// A plan that the search knows by its costs alone.
#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.h"

namespace plimsoll {

// One point of the ladder: live bytes and modelled seconds. BatchCandidates knows which of them are exact.
struct Candidate {
  std::size_t batch = 0;  // index of the micro-batch size, paging and group
  int loss_chunks = 1;
  std::size_t level = 0, chain = 0;  // index of a level of offloaded inputs, and of a chain plan there
  bool simulated = false;            // bytes and seconds are those of its plan
  Bytes live;                        // in the arena
  Bytes transfers;                   // outside the arena
  Bytes reserve;                     // of the process, with the instructions of clones
  double update_seconds = 0;

  Bytes values() const { return live + transfers; }
  // The bytes of the process without the rounding of its arena: a lower bound if `live` is exact.
  Bytes held() const { return values() + reserve; }
};

// Candidates are compared in both. Budgets count the process. Layout may round up the arena of one with fewer bytes held, so a
// candidate with fewer bytes of values may have the smaller plan.
inline constexpr std::array kMeasures{&Candidate::held, &Candidate::values};

}  // namespace plimsoll
