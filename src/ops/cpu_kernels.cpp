#include <unordered_map>

#include "ops/kernel.h"

namespace plimsoll {
namespace {

std::unordered_map<const OpDef*, CpuKernel> gather() {
  std::unordered_map<const OpDef*, CpuKernel> table;
  for (const CpuKernels& family :
       {matmul_cpu_kernels(), elementwise_cpu_kernels(), norm_cpu_kernels(), softmax_cpu_kernels(), attention_cpu_kernels(),
        embedding_cpu_kernels(), reduce_cpu_kernels(), shape_cpu_kernels(), cast_cpu_kernels(), dropout_cpu_kernels(),
        loss_cpu_kernels(), update_cpu_kernels(), factored_cpu_kernels()}) {
    for (const CpuKernel& kernel : family) table.emplace(kernel.op, kernel);
  }
  return table;
}

}  // namespace

const CpuKernel* find_cpu_kernel(const OpDef& op) {
  static const std::unordered_map<const OpDef*, CpuKernel> table = gather();
  const auto found = table.find(&op);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace plimsoll
