#include <unordered_map>

#include "ops/cuda_kernel.h"
#include "ops/loss/cuda.h"
#include "ops/matmul/cuda.h"

namespace plimsoll {
namespace {

// Of the ops whose kernels need some. All others work in their outputs.
using Scratch = Bytes (*)(const KernelRequest&);
const std::unordered_map<const OpDef*, Scratch>& scratch_rules() {
  static const std::unordered_map<const OpDef*, Scratch> rules = {{&ops::kMatmul, cuda_matmul_scratch},
                                                                  {&ops::kLinearCrossEntropy, cuda_loss_scratch},
                                                                  {&ops::kLinearCrossEntropyBackward, cuda_loss_scratch}};
  return rules;
}

}  // namespace

KernelChoice choose_cuda(const KernelRequest& request) {
  const auto rule = scratch_rules().find(request.op);
  return own_kernel(rule == scratch_rules().end() ? Bytes{} : rule->second(request));
}

// The loss works on the whole vocabulary at once: a table that does not fit beside its tile fits no GPU.
bool cuda_takes_ranges(const OpDef& op) { return &op != &ops::kLinearCrossEntropy && &op != &ops::kLinearCrossEntropyBackward; }

}  // namespace plimsoll
