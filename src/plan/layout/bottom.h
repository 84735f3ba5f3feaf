// Buffers that live as long as the whole problem need no search: they lie at the bottom of a layout, and the search places the
// others above them.
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

// Without pins: all buffers that live always, since a layout with these at the bottom is as low as any other. With pins:
// those that are pinned there. Buffers whose size is not a multiple of the alignment stay with the others, because a layout
// without their padding may be lower. Throws an internal error for a problem that no solver accepts.
Bottom find_bottom(const Problem& problem);

// The problem of the other buffers, with offsets from the top of the bottom.
Problem above(const Problem& problem, const Bottom& bottom);

// The solution of the whole problem from one of the buffers above the bottom.
Solution with_bottom(const Problem& problem, const Bottom& bottom, const Solution& above);

}  // namespace plimsoll::layout
