#include "prepare/plan_file.h"

#include <nlohmann/json.hpp>

#include "formats/bounded_json.h"
#include "formats/file.h"
#include "prepare/plan_json.h"

namespace plimsoll {

using nlohmann::json;

Error not_a_plan(const std::string& path, const std::string& why) {
  return config_error("E-PLAN-FILE", path, why, "a plan file, which holds its values", {new_plan()});
}

json read_plan(const std::string& path) {
  constexpr JsonLimits kLimits{.bytes = 256 << 20, .values = 8'000'000};
  std::string text;
  try {
    text = read_text(path, kLimits.bytes, "E-PLAN-FILE");
  } catch (const Error& error) {
    throw not_a_plan(path, error.message);
  }
  std::string fault;
  json plan = parse_json(text, kLimits, fault);
  if (!fault.empty()) throw not_a_plan(path, fault);
  if (!plan.is_object() || plan.value("schema", json()) != "plimsoll.plan/1") throw not_a_plan(path, "it is not a plan");
  return plan;
}

}  // namespace plimsoll
