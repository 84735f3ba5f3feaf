// The families of ops, and with them every op: a folder of src/ops and a line of this list for each. Nothing else names them all.
//
// The folder `NAME` has
//   rules.cpp  ops::NAME_ops(): its ops, and what planning needs to know of their kernels on a GPU;
//   cpu.cpp    NAME_cpu_kernels() (ops/kernel.h);
//   cuda.cu    NAME_cuda_kernels() (ops/cuda_kernel.h), if a GPU runs the family;
// and tests/ops/cases/NAME.cpp has NAME_cases(). Tests walk the list and demand of each op a type rule, a gradient or the reason
// why there is none, a cost, a kernel and test cases.
#pragma once

#include <string>
#include <vector>

#include "graph/kernel_catalogue.h"

// Calls CPU_AND_GPU(NAME) or CPU_ONLY(NAME) for each family, in the order of the ops.
#define PLIMSOLL_OP_FAMILIES(CPU_AND_GPU, CPU_ONLY) \
  CPU_AND_GPU(matmul)                               \
  CPU_AND_GPU(elementwise)                          \
  CPU_AND_GPU(norm)                                 \
  CPU_AND_GPU(softmax)                              \
  CPU_AND_GPU(attention)                            \
  CPU_AND_GPU(embedding)                            \
  CPU_AND_GPU(reduce)                               \
  CPU_AND_GPU(shape)                                \
  CPU_AND_GPU(cast)                                 \
  CPU_AND_GPU(dropout)                              \
  CPU_AND_GPU(loss)                                 \
  CPU_AND_GPU(update)                               \
  CPU_AND_GPU(factored)                             \
  CPU_AND_GPU(cross_entropy)                        \
  CPU_AND_GPU(squared_error)                        \
  CPU_ONLY(statistic)                               \
  CPU_ONLY(rms_norm)                                \
  CPU_ONLY(gated)                                   \
  CPU_ONLY(rotary)                                  \
  CPU_ONLY(cache)                                   \
  CPU_ONLY(score)                                   \
  CPU_ONLY(block_matmul)                            \
  CPU_ONLY(adapter)

// For whoever needs one kind of them only.
#define PLIMSOLL_NO_FAMILY(NAME)

namespace plimsoll::ops {

// Needs of an op's kernel on a GPU, known without asking one.
struct GpuNeeds {
  Bytes (*scratch)(const KernelRequest&) = nullptr;  // throws by require_on_gpu; null: the kernel works in its outputs
  bool cublas = false;                               // products are cuBLASLt's, which need not write all of the scratch
  bool whole = false;                                // no operand comes in ranges
};

struct ListedOp {
  const OpDef* op;
  GpuNeeds gpu = {};
};
using OpList = std::vector<ListedOp>;

#define PLIMSOLL_DECLARE(NAME) OpList NAME##_ops();
PLIMSOLL_OP_FAMILIES(PLIMSOLL_DECLARE, PLIMSOLL_DECLARE)
#undef PLIMSOLL_DECLARE

// For a request that the kernels of an op do not cover: throws E-CUDA-OP "[op] a GPU has no kernel for WHAT; EXPECTED" unless
// `ok`.
void require_on_gpu(bool ok, const KernelRequest& request, const std::string& what, const std::string& expected);

// Every op there is.
const std::vector<const OpDef*>& all_ops();

}  // namespace plimsoll::ops
