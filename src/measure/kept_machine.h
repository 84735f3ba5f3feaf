// The machine file of a cache.
#pragma once

#include <filesystem>
#include <optional>

#include "measure/machine_file.h"

namespace plimsoll {

// Nothing if the file is absent, damaged, or not this user's own.
std::optional<MachineRecord> kept_machine(const std::filesystem::path& path);

}  // namespace plimsoll
