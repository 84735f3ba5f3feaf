// The table of a GPU's kernels by op. Kernels are bound on the host and put their work on the stream of a call. They allocate
// nothing, wait for nothing and may be captured into a graph. Planning uses `choose_cuda`, which needs no GPU: scratch depends on
// shapes alone.
#pragma once

#include "ops/kernel.h"

namespace plimsoll {

struct CudaKernel {
  const OpDef* op;
  std::unique_ptr<Kernel> (*bind)(const KernelRequest&);
};

// Null if a GPU has no kernel for the op.
const CudaKernel* find_cuda_kernel(const OpDef& op);

// Implementation and scratch of the kernel for a request. Throws E-CUDA-OP if no kernel takes it.
KernelChoice choose_cuda(const KernelRequest& request);

// Binds that kernel. Throws like choose_cuda.
std::unique_ptr<Kernel> bind_cuda(const KernelRequest& request);

// True if the kernel has passed its tests on a GPU, and for an op without one.
bool cuda_verified(const OpDef& op);

// True if the kernel of an op with a rule for ranges works on them.
bool cuda_takes_ranges(const OpDef& op);

// Each family's kernels, gathered by find_cuda_kernel.
using CudaKernels = std::vector<CudaKernel>;
#define PLIMSOLL_DECLARE(NAME) CudaKernels NAME##_cuda_kernels();
PLIMSOLL_OP_FAMILIES(PLIMSOLL_DECLARE, PLIMSOLL_NO_FAMILY)
#undef PLIMSOLL_DECLARE

}  // namespace plimsoll
