// The differences of two profiles: seconds by op and part, bytes at the peak by owner. Each list adds up to the whole difference.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll {

// A profile that `profile --json` wrote. E-PROFILE-FILE (exit 2) for any other file.
nlohmann::json read_profile(const std::string& path);

// plimsoll.profile-diff/1: `seconds` and `bytes`, the largest difference first. A side without an op or owner counts as 0.
// E-PROFILE-FILE names the file that lacks a field.
nlohmann::json profile_diff(const std::string& path_a, const nlohmann::json& a, const std::string& path_b,
                            const nlohmann::json& b);

}  // namespace plimsoll
