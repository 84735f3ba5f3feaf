#include <unordered_map>

#include "base/error.h"
#include "ops/cuda_kernel.h"

namespace plimsoll {
namespace {

std::unordered_map<const OpDef*, CudaKernel> gather() {
  std::unordered_map<const OpDef*, CudaKernel> table;
#define PLIMSOLL_KERNELS(NAME) NAME##_cuda_kernels(),
  for (const CudaKernels& family : {PLIMSOLL_OP_FAMILIES(PLIMSOLL_KERNELS, PLIMSOLL_NO_FAMILY)}) {
    for (const CudaKernel& kernel : family) table.emplace(kernel.op, kernel);
  }
#undef PLIMSOLL_KERNELS
  return table;
}

}  // namespace

const CudaKernel* find_cuda_kernel(const OpDef& op) {
  static const std::unordered_map<const OpDef*, CudaKernel> table = gather();
  const auto found = table.find(&op);
  return found == table.end() ? nullptr : &found->second;
}

std::unique_ptr<Kernel> bind_cuda(const KernelRequest& request) {
  choose_cuda(request);
  const CudaKernel* kernel = find_cuda_kernel(*request.op);
  ensure(kernel != nullptr, "device cuda", "planning knows of a kernel that the module does not have");
  return kernel->bind(request);
}

}  // namespace plimsoll
