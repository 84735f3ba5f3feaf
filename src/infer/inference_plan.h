// Plans of commands that run weights forward only: evaluate, generate, forward. All fits into memory, or parameters come from a
// disk as in a training. Of a few plans, from the fastest to the smallest, the first one that fits is taken.
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

// What a command may take.
struct InferenceRoom {
  Bytes memory;
  std::optional<DiskBudget> disk;
  MachineRecord machine;  // with the disk as a tier
};

// Without a budget of memory what the machine has; E-MEM-MACHINE (exit 3) where it has less than was asked for.
InferenceRoom inference_room(const MemorySettings& memory, MachineRecord machine, const std::filesystem::path& cache,
                             const std::function<void(const std::string&)>& say);

struct InferenceRequest {
  // The graph of a size: so many samples that go together, or the context of a chat. `sizes` are in descending order, and the
  // first that fits is taken. `base`: how linear layers are stored.
  std::function<InferenceGraph(std::int64_t size, const FrozenBase& base)> build;
  std::vector<std::int64_t> sizes{1};
  FrozenBase base = {};
  // Whose layers may be stored in fewer bytes, where nothing fits; null: that is not proposed.
  const ModelSource* source = nullptr;
  Bytes heap = {};  // beside the plan's own, and beside what loading an adapter takes: "vocabulary"
};

struct InferencePlan {
  InferenceGraph graph;
  Plan plan;
  std::int64_t size = 1;
};

// Plans in a child process. Throws E-PLAN-FIT (exit 3), with what fits, where no plan does.
InferencePlan plan_inference(const InferenceRequest& request, const InferenceRoom& room);

}  // namespace plimsoll
