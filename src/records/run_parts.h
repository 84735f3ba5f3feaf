// The parts of a run that went back to an earlier checkpoint: each part ends where the run went back, and the next one begins
// there. A run that never went back is one part. Resumes from the last checkpoint make no part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "train/metrics.h"

namespace plimsoll {

// The lines of updates in (after, until] of a folder: the run itself, or abandoned/N.
struct PartLines {
  std::filesystem::path folder;
  std::int64_t after = 0, until = std::numeric_limits<std::int64_t>::max();
};

struct RunPart {
  int number = 1;                // from 1, the oldest
  std::int64_t after = 0;        // the update with which it began
  std::vector<PartLines> lines;  // in the order of updates

  void metrics(const std::function<void(const Metrics&)>& see) const;
  void evaluations(const std::function<void(const Evaluation&)>& see) const;
  void events(const std::function<void(const nlohmann::json&)>& see) const;
};

// Oldest first; at least one, the last of which is the present one and ends with the run's own files.
std::vector<RunPart> parts_of_run(const std::filesystem::path& run);

}  // namespace plimsoll
