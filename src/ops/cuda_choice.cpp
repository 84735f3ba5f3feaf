#include <unordered_map>

#include "ops/cuda_kernel.h"

namespace plimsoll {
namespace {

// Of the ops whose kernels need some. All others work in their outputs.
using Scratch = Bytes (*)(const KernelRequest&);
const std::unordered_map<const OpDef*, Scratch>& scratch_rules() {
  static const std::unordered_map<const OpDef*, Scratch> rules = {};
  return rules;
}

}  // namespace

KernelChoice choose_cuda(const KernelRequest& request) {
  const auto rule = scratch_rules().find(request.op);
  return own_kernel(rule == scratch_rules().end() ? Bytes{} : rule->second(request));
}

}  // namespace plimsoll
