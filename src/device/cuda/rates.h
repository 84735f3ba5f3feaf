// Measured rates of a GPU: products, passes over memory, launches, and the link to its host during products.
#pragma once

#include <string>

#include "base/bytes.h"

namespace plimsoll::cuda {

struct Rates {
  double fp32_flops = 0, bf16_flops = 0;  // per second, of large products; fp32 without TF32
  double pass_bytes = 0, copy_bytes = 0;  // per second, of a kernel that reads three arrays and writes two, and of a copy
  double launch_seconds = 0;              // per kernel of a graph
  double in_bytes = 0, out_bytes = 0;     // per second, to and from the device, both directions at once
  double in_alone_bytes = 0, out_alone_bytes = 0;  // per second, one direction at a time
  Bytes outside;                                   // device memory of this process without its allocations
  Bytes graph_node;                                // device memory of one kernel of a graph
};

// Uses a few gigabytes of the device and of the host, for some seconds. Called after open_device.
Rates measure_rates();

// Runs products like those of a training, forward and backward, in fp32 and bf16, and as graphs, so that the library loads its
// code.
void try_products();

// "cuBLASLt 13.1.0".
std::string products_library();

}  // namespace plimsoll::cuda
