// What the configuration of a run was made of: the settings of its file and those of the command line. They stand in the run's
// folder (settings.json), so that a run that is resumed goes on with them, and what was edited or is typed since is told from
// them.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "settings/setting.h"

namespace plimsoll {

struct RunSettings {
  std::filesystem::path file;    // CONFIG
  std::vector<Setting> in_file;  // as it was read
  std::vector<Setting> typed;    // --set and the budgets
};

inline constexpr const char* kRunSettings = "settings.json";

// E-CONFIG-*, as load_config.
RunSettings read_run_settings(const std::filesystem::path& file, std::span<const std::string> sets, const BudgetOptions& budgets);

// Leaves those of the typed settings that are in force.
Config load_config(RunSettings& settings, const Bf16Speed& bf16 = bf16_speed_here());

// Folders that relative paths start from are kept as they are and as they lie from the run's folder, which may move with them.
std::string to_json(const RunSettings& settings, const std::filesystem::path& run);

// Nothing where the folder has none, or none that can be read. A relative path of something that is not where it was starts from
// where the folder of the run is now.
std::optional<RunSettings> stored_settings(const std::filesystem::path& run);

}  // namespace plimsoll
