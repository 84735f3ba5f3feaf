// The checkpoints of a run: checkpoints/UPDATE/, and checkpoint.safetensors of format 1. Retention says which of them go.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "prepare/run_room.h"
#include "train/metrics.h"

namespace plimsoll {

struct KeptCheckpoint {
  std::int64_t update = 0;  // 0 for a file of format 1 that cannot be read
  std::filesystem::path path;
};
// Oldest first. Folders have not been read; a file of format 1 has.
std::vector<KeptCheckpoint> checkpoints_in(const std::filesystem::path& run);
// The checkpoint that a user names: RUN (its newest), RUN/UPDATE, or the folder itself. E-CKPT-MISSING.
std::filesystem::path find_checkpoint(const std::filesystem::path& named);
// The absolute path of its run.
std::filesystem::path run_of_checkpoint(const std::filesystem::path& checkpoint);
// Removes a checkpoint, or as much of it as can be. It is no checkpoint any more from the first moment on.
void remove_checkpoint(const std::filesystem::path& checkpoint);
std::filesystem::path checkpoint_path(const std::filesystem::path& run, std::int64_t update);

// The updates of checkpoints that go, oldest first, among `updates`, which ascend. `best`: evaluations, the best first.
// `another`: one more is about to be written, so that the oldest goes before it, unless it is the only one.
std::vector<std::int64_t> surplus(const Retention& retention, std::span<const std::int64_t> updates,
                                  std::span<const Evaluation> best, bool another);

}  // namespace plimsoll
