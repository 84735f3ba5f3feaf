// Update time against memory for people, from a plan object with its `frontier`: a table by growing budget, and a plot.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll {

// `colour`: for a terminal with colours.
std::string frontier_text(const nlohmann::json& plan, bool colour);

}  // namespace plimsoll
