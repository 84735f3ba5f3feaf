// Copies between tiers as nodes of the graph. Kernels read and write a value of another tier through a copy, which is a separate
// value. It lives from the start of its fetch to its last reader, or to the end of its store; both run next to the kernels in
// between. Lifetimes, layout and program treat it like any other value.
#pragma once

#include "graph/op.h"

namespace plimsoll {

// fetch: (x on another tier) -> a copy, the read has begun.  fetched: (that copy) -> the same bytes, complete.
// store: (copy) -> the same bytes, the write has begun.  stored: (that copy, x on another tier) -> x, updated.
extern const OpDef kFetch, kFetched, kStore, kStored;

}  // namespace plimsoll
