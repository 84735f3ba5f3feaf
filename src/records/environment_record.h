// The program and the machine of a run, for run.json. No variable of the environment is among them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace plimsoll {

// {version, commit, system, processor, libraries}. `commit` is null for a build outside a repository; "-dirty" marks changed
// files.
nlohmann::json environment_record(const std::vector<std::string>& libraries);

// 16 random hex digits.
std::string new_run_id();

}  // namespace plimsoll
