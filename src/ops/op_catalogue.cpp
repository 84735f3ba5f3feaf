#include "ops/op_catalogue.h"

namespace plimsoll {

// A chunked op is measured in one piece; its time in chunks follows from the work.
std::optional<double> OpCatalogue::recorded_seconds(KernelRequest request, double work) const {
  auto recorded = recorded_.find(timing_key(request));
  if (recorded != recorded_.end()) return recorded->second;
  request.chunks = 1;
  recorded = recorded_.find(timing_key(request));
  return recorded == recorded_.end() ? std::nullopt : std::optional(recorded->second * work);
}

std::string OpCatalogue::implementation_of(const KernelChoice& choice, const KernelRequest& request) const {
  if (algorithms_.empty()) return choice.implementation;
  const auto algorithm = algorithms_.find(algorithm_key(request));
  return algorithm == algorithms_.end() ? choice.implementation : choice.implementation + " " + algorithm->second;
}

KernelChoice OpCatalogue::choose(const KernelRequest& request) {
  std::string key = kernel_key(request);
  const std::lock_guard lock(mutex_);
  const auto known = asked_.find(key);
  if (known != asked_.end()) return known->second;
  KernelChoice choice = kernels_.choose(request);
  choice.implementation = implementation_of(choice, request);
  if (const std::optional<double> seconds = recorded_seconds(request, choice.work)) {
    choice.seconds = *seconds;
    choice.source = CostSource::recorded;
  } else {
    Cost cost = request.op->cost(*request.attributes, request.inputs, request.outputs);
    cost.flops *= choice.work;
    if (kernels_.narrow_products && request.op->costly) cost.operands = request.inputs[0].dtype;
    choice.seconds = roofline_seconds(roofline_, cost);
  }
  return asked_.emplace(std::move(key), std::move(choice)).first->second;
}

}  // namespace plimsoll
