#include <string>
#include <unordered_map>

#include "base/error.h"
#include "ops/kernel.h"
#include "ops/op_kernels.h"

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

KernelChoice choose_cpu(const KernelRequest& request) {
  const CpuKernel* kernel = find_cpu_kernel(*request.op);
  if (kernel == nullptr) throw internal_error("catalogue", "the CPU has no kernel for " + std::string(request.op->name));
  return kernel->choose == nullptr ? own_kernel() : kernel->choose(request);
}

KernelChoice choose_own(const KernelRequest& asked) {
  KernelRequest request = asked;
  request.with_library = false;
  return choose_cpu(request);
}

bool takes_ranges(const OpDef&) { return true; }

}  // namespace

const OpKernels kCpuKernels{choose_cpu, takes_ranges}, kOwnCpuKernels{choose_own, takes_ranges};

const CpuKernel* find_cpu_kernel(const OpDef& op) {
  static const std::unordered_map<const OpDef*, CpuKernel> table = gather();
  const auto found = table.find(&op);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace plimsoll
