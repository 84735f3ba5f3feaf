// The records of a run as tables: metrics.csv, evaluations.csv and events.csv, for each part of the run (run_parts.h): the first
// in the folder itself, part N in the folder N there. Numbers have all digits of their fp64. Each file appears as a whole.
#pragma once

#include <filesystem>

namespace plimsoll {

// E-IO-WRITE.
void export_csv(const std::filesystem::path& run, const std::filesystem::path& folder);

}  // namespace plimsoll
