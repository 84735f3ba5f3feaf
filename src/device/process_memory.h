// Memory of this process as the kernel counts it. Each throws E-MEM-COUNT (environment, exit 5) if the kernel does not tell: a
// budget needs a count.
#pragma once

#include "base/bytes.h"

namespace plimsoll {

// VmHWM: the most that was ever resident. It can lag behind by the per-CPU counters, about 1 MiB.
Bytes peak_resident();
// The resident pages counted one by one (smaps_rollup): exact, and slower by the size of the page tables. Where the kernel keeps
// no such file: VmRSS, which lags as VmHWM does.
Bytes counted_resident();
// RssAnon and RssFile, the pages of memory alone and those of files; 0 where the kernel does not tell.
Bytes anonymous_resident();
Bytes file_resident();

}  // namespace plimsoll
