// Whose kernels a plan is for: what planning asks of them, without running any.
#pragma once

#include "graph/kernel_catalogue.h"

namespace plimsoll {

struct OpKernels {
  // Implementation, scratch and primitives.
  KernelChoice (*choose)(const KernelRequest& request);
  // Whether the kernel works on ranges where the op has a rule for them.
  bool (*takes_ranges)(const OpDef& op);
  // Whether all costly ops multiply 16-bit operands as they are, at the rate of such products.
  bool narrow_products = false;
};

// Of this processor; the second one asks no library and is the same on every processor.
extern const OpKernels kCpuKernels, kOwnCpuKernels;
// Of a GPU. Scratch follows from shapes alone.
extern const OpKernels kCudaKernels;

}  // namespace plimsoll
