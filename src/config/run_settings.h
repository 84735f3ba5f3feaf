// The settings of a run's configuration, from its file and from the command line. They are kept in the run's folder
// (settings.json), so that a resumed run goes on with them, and later edits and options are told from them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "settings/setting.h"

namespace plimsoll {

struct RunSettings {
  std::filesystem::path file;    // CONFIG
  std::vector<Setting> in_file;  // as it was read
  std::vector<Setting> typed;    // on the command line
};

inline constexpr const char* kRunSettings = "settings.json";

// Keeps the typed settings that are in force, and drops the others.
Config load_config(RunSettings& settings, const Bf16Speed& bf16 = bf16_speed_here());

// The folders at which relative paths start are stored as they are, and relative to the run's folder, which may move with them.
std::string to_json(const RunSettings& settings, const std::filesystem::path& run);

// Nothing if the folder has no readable settings. If files have moved with the run's folder, relative paths start at the folder's
// present place.
std::optional<RunSettings> stored_settings(const std::filesystem::path& run);

}  // namespace plimsoll
