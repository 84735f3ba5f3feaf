#include <algorithm>
#include <unordered_map>

#include "ops/cuda_kernel.h"
#include "ops/op_kernels.h"

namespace plimsoll {
namespace {

// The ops that a GPU runs.
const std::unordered_map<const OpDef*, ops::GpuNeeds>& needs() {
  static const auto table = [] {
    std::unordered_map<const OpDef*, ops::GpuNeeds> gathered;
#define PLIMSOLL_OPS(NAME) ops::NAME##_ops(),
    for (const ops::OpList& family : {PLIMSOLL_OP_FAMILIES(PLIMSOLL_OPS, PLIMSOLL_NO_FAMILY)}) {
      for (const ops::ListedOp& each : family) gathered.emplace(each.op, each.gpu);
    }
#undef PLIMSOLL_OPS
    return gathered;
  }();
  return table;
}

}  // namespace

KernelChoice choose_cuda(const KernelRequest& request) {
  const auto found = needs().find(request.op);
  ops::require_on_gpu(found != needs().end(), request, "this op", "on a GPU every op of the model needs one");
  const ops::GpuNeeds& needed = found->second;
  if (needed.require != nullptr) needed.require(request);
  KernelChoice choice = own_kernel(needed.scratch == nullptr ? Bytes{} : needed.scratch(request));
  if (needed.launches != nullptr) choice.launches = std::max(kUsualLaunches, needed.launches(request));
  if (!needed.cublas) return choice;
  choice.implementation = "cublaslt";
  choice.primitives = 1;
  return choice;
}

bool cuda_verified(const OpDef& op) {
  const auto found = needs().find(&op);
  return op.view || found == needs().end() || found->second.verified;
}

bool cuda_takes_ranges(const OpDef& op) {
  const auto found = needs().find(&op);
  return found == needs().end() || !found->second.whole;
}

const OpKernels kCudaKernels{choose_cuda, cuda_takes_ranges, true};

}  // namespace plimsoll
