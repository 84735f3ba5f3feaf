#include "graph/kernel_catalogue.h"

#include <fmt/core.h>

namespace plimsoll {

std::string_view name(CostSource source) {
  switch (source) {
    case CostSource::measured: return "measured";
    case CostSource::recorded: return "recorded";
    case CostSource::bound: return "bound";
  }
  return "?";
}

namespace {

std::string key_with(const std::string& attributes, const KernelRequest& request) {
  std::string inputs;
  for (const ValueType& type : request.inputs) {
    inputs += fmt::format("{}{}{}", inputs.empty() ? "" : ", ", name(type.dtype), to_text(type.shape));
  }
  return fmt::format("{}[{}]({})x{}t{}{}", request.op->name, attributes, inputs, request.chunks, request.threads,
                     request.overwrite ? "w" : "");
}

}  // namespace

std::string kernel_key(const KernelRequest& request) {
  return key_with(request.attributes->text(), request) + (request.in_ranges ? "r" : "");
}
std::string timing_key(const KernelRequest& request) { return key_with(request.attributes->text_without_noise(), request); }
std::string algorithm_key(KernelRequest request) {
  request.chunks = 1;
  return timing_key(request);
}

}  // namespace plimsoll
