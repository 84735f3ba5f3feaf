#include "prepare/plan_file.h"

#include <nlohmann/json.hpp>

#include "formats/bounded_json.h"
#include "prepare/plan_json.h"

namespace plimsoll {

using nlohmann::json;

Error not_a_plan(const std::string& path, const std::string& why) {
  return config_error("E-PLAN-FILE", path, why, "a plan file, which holds its values", {new_plan()});
}

json read_plan(const std::string& path) {
  constexpr JsonLimits kLimits{.bytes = 256 << 20, .values = 8'000'000};
  return read_own_object(path, kLimits, "plimsoll.plan/1", "a plan",
                         [&](const std::string& why) { return not_a_plan(path, why); });
}

}  // namespace plimsoll
