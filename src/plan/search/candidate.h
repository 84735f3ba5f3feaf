// A plan that the search knows by its costs alone.
#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace plimsoll {

// One point of the ladder: live bytes and modelled seconds. BatchCandidates knows which of them are exact.
struct Candidate {
  std::size_t batch = 0;  // index of the micro-batch size, paging and group
  int loss_chunks = 1;
  std::size_t level = 0, chain = 0;  // index of a level of offloaded inputs, and of a chain plan there
  bool simulated = false;            // bytes and seconds are those of its plan
  Bytes live;
  Bytes outside;  // bytes of the process outside the arena: reserve, transfers, instructions of clones
  double update_seconds = 0;

  // The bytes of the process without the rounding of its arena: a lower bound if `live` is exact.
  Bytes held() const { return live + outside; }
};

}  // namespace plimsoll
