// What lives as long as anything does needs no search: it lies at the bottom of a layout, and the others are searched above it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

struct Bottom {
  std::vector<std::size_t> buffers;  // one on the other, from 0
  std::int64_t height = 0;
};

// Where nothing is pinned, all that lives always, as what lay below it may move up; else what is pinned there. What padding lies
// above stays with the others, as a layout may be lower for it. Throws an internal error for a problem that no solver accepts.
Bottom find_bottom(const Problem& problem);

// The others, from the height of the bottom on.
Problem above(const Problem& problem, const Bottom& bottom);

// A solution of the whole, from one of what lies above.
Solution with_bottom(const Problem& problem, const Bottom& bottom, const Solution& above);

}  // namespace plimsoll::layout
