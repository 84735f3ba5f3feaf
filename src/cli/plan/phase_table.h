// The bytes of a plan by owner and phase, and its answers to held-out prompts, from its JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll {

// A table of owners by phases, at the peak of each phase, within 80 columns. Passes that answer prompts are left out, unless they
// are the highest: then they take the place of the phase `save`.
std::string phase_table(const nlohmann::json& predicted);

// A line about the answers, or the reason for leaving them out; empty if no samples are asked for.
std::string samples_text(const nlohmann::json& plan);

}  // namespace plimsoll
