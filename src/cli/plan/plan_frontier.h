// Update time against memory as people read it, from a plan object with its `frontier`: a table by growing budget, and a plot.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll {

// `colour`: for a terminal that takes it.
std::string frontier_text(const nlohmann::json& plan, bool colour);

}  // namespace plimsoll
