// The kernels of a plan as planning sees them. Planning runs no kernel.
#pragma once

#include "graph/kernel_catalogue.h"

namespace plimsoll {

struct OpKernels {
  // Implementation, scratch and primitives.
  KernelChoice (*choose)(const KernelRequest& request);
  // True if the kernel of an op with a rule for ranges works on them.
  bool (*takes_ranges)(const OpDef& op);
  // True if costly ops multiply 16-bit operands directly, at the rate of such products.
  bool narrow_products = false;
};

// Kernels of this processor; those of kOwnCpuKernels use no library and are the same on every processor.
extern const OpKernels kCpuKernels, kOwnCpuKernels;
// Kernels of a GPU. Their scratch depends on shapes alone.
extern const OpKernels kCudaKernels;

}  // namespace plimsoll
