// What stays between two passes against what runs again for the second one. At a price for each byte the best choice is a minimal
// cut: every result that the second pass needs is kept, or its op runs again and needs what it reads.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/replays/problem.h"

namespace plimsoll::replays {

struct Choice {
  double seconds = 0;      // of what runs again
  std::int64_t bytes = 0;  // of what stays
  std::vector<int> again;  // ops, ascending
  std::vector<int> stay;   // items
};

struct Exchange {
  int turn = 0;              // the first op of the second pass
  std::vector<char> again;   // by op of the first pass: whether it may run again
  std::vector<char> chosen;  // by item: whether the choice is about it; others are there
};

// No mixture of others is better than one of these. From what keeps everything to the fewest bytes; where there are more, those
// that differ most.
std::vector<Choice> best_choices(const Problem& problem, const Exchange& exchange, std::size_t most);

}  // namespace plimsoll::replays
