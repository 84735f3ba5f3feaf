// The kernels of exchanges between ranks (graph/exchange.h), which add and copy the numbers that messages brought.
#pragma once

#include "ops/kernel.h"

namespace plimsoll {

CpuKernels exchange_cpu_kernels();

}  // namespace plimsoll
