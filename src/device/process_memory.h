// What the kernel counts for this process.
#pragma once

#include "base/bytes.h"

namespace plimsoll {

// VmHWM: the most that was ever resident. It can lag behind by the per-CPU counters, about 1 MiB.
Bytes peak_resident();
// VmRSS now.
Bytes now_resident();

}  // namespace plimsoll
