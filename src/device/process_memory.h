// What the kernel counts for this process.
#pragma once

#include "base/bytes.h"

namespace plimsoll {

// VmHWM: the most that was ever resident. It can lag behind by the per-CPU counters, about 1 MiB.
Bytes peak_resident();
// VmRSS now; it lags as well.
Bytes now_resident();
// The resident pages counted one by one (smaps_rollup): exact, and slower by the size of the page tables.
Bytes counted_resident();

}  // namespace plimsoll
