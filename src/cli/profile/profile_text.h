// A profile for people, from its JSON: the verdict, the update in its parts, its ops, its memory. The same for two of them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll {

std::string profile_text(const nlohmann::json& profile);
std::string profile_diff_text(const nlohmann::json& diff);

}  // namespace plimsoll
