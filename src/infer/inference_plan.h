// Plans of commands with forward passes only: evaluate, generate, forward. All values are in memory, or parameters rest on a disk
// as in training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "measure/machine_file.h"
#include "plan/plan.h"
#include "prepare/training_graph.h"
#include "weights/model_source.h"

namespace plimsoll {

// The resources of a command.
struct InferenceRoom {
  Bytes memory;
  std::optional<DiskBudget> disk;
  MachineRecord machine;  // with the disk as a tier
  std::filesystem::path cache;
};

// The default budget is 95 % of the available memory; E-MEM-MACHINE (exit 3) if less than the given budget is available.
InferenceRoom inference_room(const MemorySettings& memory, MachineRecord machine, const std::filesystem::path& cache,
                             const std::function<void(const std::string&)>& say);

struct InferenceRequest {
  // Builds the graph of a size: samples in a batch, or the context of a chat. `base`: storage of linear layers.
  std::function<InferenceGraph(std::int64_t size, const FrozenBase& base)> build;
  std::vector<std::int64_t> sizes{1};  // in falling order; the first that fits is taken
  FrozenBase base = {};
  // The model for proposals of smaller storage when nothing fits; null: no proposals.
  const ModelSource* source = nullptr;
  Bytes heap = {};  // heap of the command; the loading of an adapter is counted in addition
};

struct InferencePlan {
  InferenceGraph graph;
  Plan plan;
  std::int64_t size = 1;
};

// Plans in a child process. Throws E-PLAN-FIT (exit 3) with remedies if no plan fits.
InferencePlan plan_inference(const InferenceRequest& request, const InferenceRoom& room);

}  // namespace plimsoll
