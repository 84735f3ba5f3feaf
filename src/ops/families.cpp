#include "ops/families.h"

#include "base/error.h"

namespace plimsoll::ops {
namespace {

std::vector<const OpDef*> gather() {
  std::vector<const OpDef*> all;
#define PLIMSOLL_OPS(NAME) NAME##_ops(),
  for (const OpList& family : {PLIMSOLL_OP_FAMILIES(PLIMSOLL_OPS, PLIMSOLL_OPS)}) {
    for (const ListedOp& each : family) all.push_back(each.op);
  }
#undef PLIMSOLL_OPS
  return all;
}

}  // namespace

void require_on_gpu(bool ok, const KernelRequest& request, const std::string& what, const std::string& expected) {
  if (ok) return;
  throw config_error("E-CUDA-OP", std::string(request.op->name), "a GPU has no kernel for " + what, expected,
                     {Change("machine.device", "cpu")});
}

const std::vector<const OpDef*>& all_ops() {
  static const std::vector<const OpDef*> all = gather();
  return all;
}

}  // namespace plimsoll::ops
