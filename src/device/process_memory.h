// The memory of this process as the kernel counts it. The first two throw E-MEM-COUNT (environment, exit 5) if the kernel gives
// no figure: a budget needs one.
#pragma once

#include "base/bytes.h"

namespace plimsoll {

// VmHWM: the highest resident size so far. It can lag by the kernel's per-CPU counters, about 1 MiB.
Bytes peak_resident();
// The resident pages, counted one by one (smaps_rollup): exact, but slow for large processes. If the kernel has no such file,
// VmRSS, which lags like VmHWM.
Bytes counted_resident();
// RssAnon and RssFile: resident pages without a file, and those of files; 0 if the kernel gives no figure.
Bytes anonymous_resident();
Bytes file_resident();

}  // namespace plimsoll
