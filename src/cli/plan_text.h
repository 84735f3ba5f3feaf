// A plan as people read it, from its JSON: the table by phase and owner, floors, knee and ceiling, levers or remedies.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll {

std::string plan_text(const nlohmann::json& plan);
// Three lines for the start of a training.
std::string plan_summary(const nlohmann::json& plan);

}  // namespace plimsoll
