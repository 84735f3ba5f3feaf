#include <unordered_map>

#include "ops/cuda_kernel.h"

namespace plimsoll {
namespace {

std::unordered_map<const OpDef*, CudaKernel> gather() {
  std::unordered_map<const OpDef*, CudaKernel> table;
  for (const CudaKernels& family :
       {matmul_cuda_kernels(), elementwise_cuda_kernels(), shape_cuda_kernels(), cast_cuda_kernels(), dropout_cuda_kernels(),
        attention_cuda_kernels(), loss_cuda_kernels(), update_cuda_kernels(), factored_cuda_kernels(), norm_cuda_kernels(),
        softmax_cuda_kernels(), reduce_cuda_kernels(), embedding_cuda_kernels()}) {
    for (const CudaKernel& kernel : family) table.emplace(kernel.op, kernel);
  }
  return table;
}

}  // namespace

const CudaKernel* find_cuda_kernel(const OpDef& op) {
  static const std::unordered_map<const OpDef*, CudaKernel> table = gather();
  const auto found = table.find(&op);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace plimsoll
