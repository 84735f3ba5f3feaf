// How a GPU runs an op. Kernels are bound on the host and put their work on the stream that a call names; they allocate nothing,
// wait for nothing and may be captured into a graph. Planning asks `choose_cuda`, which asks no GPU: scratch follows from
// shapes alone.
#pragma once

#include "ops/kernel.h"

namespace plimsoll {

struct CudaKernel {
  const OpDef* op;
  std::unique_ptr<Kernel> (*bind)(const KernelRequest&);
};

// Null where a GPU has no kernel for the op.
const CudaKernel* find_cuda_kernel(const OpDef& op);

// Implementation and scratch of the kernel that find_cuda_kernel binds.
KernelChoice choose_cuda(const KernelRequest& request);

// True: that kernel works on ranges where the op has a rule for them.
bool cuda_takes_ranges(const OpDef& op);

// Each family's kernels, gathered by find_cuda_kernel.
using CudaKernels = std::vector<CudaKernel>;
#define PLIMSOLL_DECLARE(NAME) CudaKernels NAME##_cuda_kernels();
PLIMSOLL_OP_FAMILIES(PLIMSOLL_DECLARE, PLIMSOLL_NO_FAMILY)
#undef PLIMSOLL_DECLARE

}  // namespace plimsoll
