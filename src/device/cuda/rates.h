// Measured rates of a GPU: products, passes over memory, launches, and the link to its host, both ways at once during products.
#pragma once

#include <string>

#include "base/bytes.h"

namespace plimsoll::cuda {

struct Rates {
  double fp32_flops = 0, bf16_flops = 0;  // a second, of large products; fp32 without TF32
  double pass_bytes = 0, copy_bytes = 0;  // a second: of a kernel that reads three and writes two, of one that copies
  double launch_seconds = 0;              // of a kernel of a graph
  double in_bytes = 0, out_bytes = 0;     // a second, to and from the device, both at once
  double in_alone_bytes = 0, out_alone_bytes = 0;
  Bytes outside;     // of the device by this process, less what it has asked for
  Bytes graph_node;  // of which one kernel of a graph takes so much
};

// Takes a few gigabytes of the device and of the host, and some seconds. After open_device.
Rates measure_rates();

// As training has them, forward and backward, in fp32 and bf16, and as graphs: what the library loads for that is loaded.
void try_products();

// "cuBLASLt 13.1.0".
std::string products_library();

}  // namespace plimsoll::cuda
