#include "prepare/plan_file.h"

#include <nlohmann/json.hpp>

#include "formats/file.h"
#include "formats/json_fault.h"

namespace plimsoll {

using nlohmann::json;

Error not_a_plan(const std::string& path, const std::string& why) {
  return config_error("E-PLAN-FILE", path, why, "a file that `plimsoll plan CONFIG --out` wrote, which holds its values",
                      {"plimsoll plan CONFIG --out plan.json"});
}

json read_plan(const std::string& path) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  std::string text;
  try {
    text = read_text(path, kMostBytes, "E-PLAN-FILE");
  } catch (const Error& error) {
    throw not_a_plan(path, error.message);
  }
  json plan = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (plan.is_discarded()) throw not_a_plan(path, "it is not JSON: " + json_fault(text));
  if (!plan.is_object() || plan.value("schema", json()) != "plimsoll.plan/1") throw not_a_plan(path, "it is not a plan");
  return plan;
}

}  // namespace plimsoll
