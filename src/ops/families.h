// The families of ops, and thereby all ops. A family is a folder of src/ops and a line of this list; there is no other list.
//
// The folder `NAME` has
//   rules.cpp  ops::NAME_ops(): its ops, with the needs of their GPU kernels for planning;
//   cpu.cpp    NAME_cpu_kernels() (ops/kernel.h);
//   cuda.cu    NAME_cuda_kernels() (ops/cuda_kernel.h), if a GPU runs the family;
// and tests/ops/cases/NAME.cpp has NAME_cases(). Tests go through the list and require of each op a type rule, a gradient or the
// reason that there is none, a cost, a kernel and test cases.
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
  CPU_AND_GPU(statistic)                            \
  CPU_AND_GPU(rms_norm)                             \
  CPU_AND_GPU(gated)                                \
  CPU_AND_GPU(rotary)                               \
  CPU_AND_GPU(block_matmul)                         \
  CPU_AND_GPU(adapter)                              \
  CPU_ONLY(class_token)                             \
  CPU_ONLY(accuracy)                                \
  CPU_ONLY(cache)                                   \
  CPU_ONLY(score)                                   \
  CPU_ONLY(convolution)                             \
  CPU_ONLY(pooling)                                 \
  CPU_ONLY(batch_norm)

// Skips one kind of families in the list.
#define PLIMSOLL_NO_FAMILY(NAME)

namespace plimsoll::ops {

// The needs of an op's kernel on a GPU, known without a GPU.
struct GpuNeeds {
  void (*require)(const KernelRequest&) = nullptr;  // throws by require_on_gpu for what the kernel does not take; null: takes all
  Bytes (*scratch)(const KernelRequest&) = nullptr;          // null: no scratch
  std::int64_t (*launches)(const KernelRequest&) = nullptr;  // kernels of a call, at most; null: kUsualLaunches
  bool cublas = false;                                       // cuBLASLt runs the products and need not write all of the scratch
  bool whole = false;                                        // the kernel does not work on ranges
  bool verified = false;  // all cases have passed on a GPU, under each of compute-sanitizer's tools too (scripts/on_gpu)
};

struct ListedOp {
  const OpDef* op;
  GpuNeeds gpu = {};
};
using OpList = std::vector<ListedOp>;

#define PLIMSOLL_DECLARE(NAME) OpList NAME##_ops();
PLIMSOLL_OP_FAMILIES(PLIMSOLL_DECLARE, PLIMSOLL_DECLARE)
#undef PLIMSOLL_DECLARE

// Throws E-CUDA-OP "[op] a GPU has no kernel for WHAT; EXPECTED" unless `ok`. WHAT names the attribute or type.
void require_on_gpu(bool ok, const KernelRequest& request, const std::string& what, const std::string& expected);

// All ops of all families.
const std::vector<const OpDef*>& all_ops();

}  // namespace plimsoll::ops
