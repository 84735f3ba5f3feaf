// The kernels of a plan: the questions of planning, which run none of them.
#pragma once

#include "graph/kernel_catalogue.h"

namespace plimsoll {

struct OpKernels {
  // Implementation, scratch and primitives.
  KernelChoice (*choose)(const KernelRequest& request);
  // True: the kernel works on ranges where the op has a rule for them.
  bool (*takes_ranges)(const OpDef& op);
  // Costly ops multiply 16-bit operands unconverted, at the rate of such products.
  bool narrow_products = false;
};

// Kernels of this processor; the second ones ask no library and are the same on every processor.
extern const OpKernels kCpuKernels, kOwnCpuKernels;
// Kernels of a GPU. Scratch follows from shapes alone.
extern const OpKernels kCudaKernels;

}  // namespace plimsoll
