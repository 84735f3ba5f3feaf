// Removal of a run: the files and folders that a run writes, and nothing else in its folder.
#pragma once

#include <filesystem>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {

struct RunRemoval {
  std::vector<std::filesystem::path> files;    // regular files, run.json last
  std::vector<std::filesystem::path> foreign;  // what else lies in the folder; it stays
  Bytes bytes;
};

// Links count as foreign.
RunRemoval plan_removal(const std::filesystem::path& run);
// Removes the files, and the folders that are empty then. E-RUN-BUSY if a process holds the run, E-IO-WRITE if a file cannot be
// removed. A second call continues a removal that was cut off.
void remove_run(const std::filesystem::path& named);

}  // namespace plimsoll
