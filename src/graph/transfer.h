// Copies between tiers as nodes of the graph. What kernels read or write while its owner rests on another tier is a value of its
// own, a copy, which lives from the start of its way in to its last reader, or to the end of its way out; both ways run beside
// the kernels in between. Lifetimes, layout and program see nothing special in it.
#pragma once

#include "graph/op.h"

namespace plimsoll {

// fetch: (x on another tier) -> a copy that begins to come in.  fetched: (that) -> the same bytes, which are there now.
// store: (copy) -> the same bytes, which begin to go out.  stored: (that, x on another tier) -> x as it rests now.
extern const OpDef kFetch, kFetched, kStore, kStored;

}  // namespace plimsoll
