// The length of a planned training for people: its size, samples and updates, and the time in all.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll {

// Lines from a plan's JSON; empty for a plan that was replayed.
std::string run_length_text(const nlohmann::json& plan);
// The treatment of samples that do not fit a row, or train nothing.
std::string long_samples_text(const nlohmann::json& epoch);

}  // namespace plimsoll
