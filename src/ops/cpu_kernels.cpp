#include <string>
#include <unordered_map>

#include "base/error.h"
#include "ops/cpu_exchange.h"
#include "ops/kernel.h"
#include "ops/op_kernels.h"

namespace plimsoll {
namespace {

std::unordered_map<const OpDef*, CpuKernel> gather() {
  std::unordered_map<const OpDef*, CpuKernel> table;
#define PLIMSOLL_KERNELS(NAME) NAME##_cpu_kernels(),
  for (const CpuKernels& family : {PLIMSOLL_OP_FAMILIES(PLIMSOLL_KERNELS, PLIMSOLL_KERNELS)}) {
    for (const CpuKernel& kernel : family) table.emplace(kernel.op, kernel);
  }
#undef PLIMSOLL_KERNELS
  for (const CpuKernel& kernel : exchange_cpu_kernels()) table.emplace(kernel.op, kernel);
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
