#include "ops/cpu_catalogue.h"

#include "base/error.h"
#include "ops/kernel.h"

namespace plimsoll {

// A chunked op is measured in one piece; its time in chunks follows from the work.
std::optional<double> CpuCatalogue::recorded_seconds(KernelRequest request, double work) const {
  auto recorded = recorded_.find(timing_key(request));
  if (recorded != recorded_.end()) return recorded->second;
  request.chunks = 1;
  recorded = recorded_.find(timing_key(request));
  return recorded == recorded_.end() ? std::nullopt : std::optional(recorded->second * work);
}

KernelChoice CpuCatalogue::choose(const KernelRequest& asked) {
  KernelRequest request = asked;
  request.with_library = library_;
  std::string key = kernel_key(request);
  const std::lock_guard lock(mutex_);
  const auto known = asked_.find(key);
  if (known != asked_.end()) return known->second;
  const CpuKernel* kernel = find_cpu_kernel(*request.op);
  if (kernel == nullptr) throw internal_error("catalogue", "the CPU has no kernel for " + std::string(request.op->name));
  KernelChoice choice = kernel->choose == nullptr ? own_kernel() : kernel->choose(request);
  if (const std::optional<double> seconds = recorded_seconds(request, choice.work)) {
    choice.seconds = *seconds;
    choice.source = CostSource::recorded;
  } else {
    Cost cost = request.op->cost(*request.attributes, request.inputs, request.outputs);
    cost.flops *= choice.work;
    choice.seconds = roofline_seconds(roofline_, cost);
  }
  return asked_.emplace(std::move(key), std::move(choice)).first->second;
}

}  // namespace plimsoll
