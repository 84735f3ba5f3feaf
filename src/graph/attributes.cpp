#include "graph/attributes.h"

#include <fmt/core.h>

namespace plimsoll {

std::string attribute_text(bool value) { return value ? "true" : "false"; }
std::string attribute_text(std::int64_t value) { return fmt::format("{}", value); }
std::string attribute_text(double value) { return fmt::format("{}", value); }
std::string attribute_text(DType value) { return std::string(name(value)); }
std::string attribute_text(const Shape& value) { return to_text(value); }
std::string attribute_text(const NoiseKey& value) { return fmt::format("{:08x}{:08x}", value[1], value[0]); }
std::string attribute_text(const BlockMatrix& value) {
  return fmt::format("{}({}, {})", name(value.format), value.rows, value.columns);
}
std::string attribute_text(const std::vector<double>& value) {
  std::string text;
  for (const double each : value) text += (text.empty() ? "" : ", ") + attribute_text(each);
  return "(" + text + ")";
}

std::string attribute_text(const std::vector<std::int64_t>& value) {
  return attribute_text(std::vector<double>(value.begin(), value.end()));
}

}  // namespace plimsoll
