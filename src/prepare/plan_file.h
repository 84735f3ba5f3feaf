// The plan objects that `plan --out` writes, read back by commands that look at plans.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"

namespace plimsoll {

// E-PLAN-FILE: `why` this file is no plan.
Error not_a_plan(const std::string& path, const std::string& why);
// An object of the schema plimsoll.plan/1; other fields are not checked. E-PLAN-FILE otherwise.
nlohmann::json read_plan(const std::string& path);

}  // namespace plimsoll
