#include "graph/kernel_catalogue.h"

#include <fmt/format.h>

namespace plimsoll {

std::string_view name(CostSource source) {
  switch (source) {
    case CostSource::measured: return "measured";
    case CostSource::recorded: return "recorded";
    case CostSource::bound: return "bound";
  }
  return "?";
}

std::string kernel_key(const KernelRequest& request) {
  std::string inputs;
  for (const ValueType& type : request.inputs) {
    inputs += fmt::format("{}{}{}", inputs.empty() ? "" : ", ", name(type.dtype), to_text(type.shape));
  }
  return fmt::format("{}[{}]({})x{}t{}{}", request.op->name, request.attributes->text(), inputs, request.chunks, request.threads,
                     request.overwrite ? "w" : "");
}

}  // namespace plimsoll
