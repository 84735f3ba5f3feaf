// The trade-off between items that stay between two passes and ops that run again for the second one. For a given price per byte
// the best choice is a minimal cut: every result that the second pass needs is kept, or its op runs again and needs its inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/replays/problem.h"

namespace plimsoll::replays {

struct Choice {
  double seconds = 0;      // of the ops that run again
  std::int64_t bytes = 0;  // of the items that stay
  std::vector<int> again;  // ops, ascending
  std::vector<int> stay;   // items
};

struct Exchange {
  int turn = 0;              // the first op of the second pass
  std::vector<char> again;   // by op of the first pass: true if it may run again
  std::vector<char> chosen;  // by item: true if the choice decides on it; other items exist in any case
};

// The choices that no mixture of others beats, from keeping everything to the fewest bytes: at most `most`, chosen to differ
// as much as possible.
std::vector<Choice> best_choices(const Problem& problem, const Exchange& exchange, std::size_t most);

}  // namespace plimsoll::replays
