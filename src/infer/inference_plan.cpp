#include "infer/inference_plan.h"

#include <fmt/core.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/disk_folder.h"
#include "base/error.h"
#include "measure/measure_disk.h"
#include "plan/build_plan.h"
#include "plan/search/space.h"
#include "prepare/plan_json.h"
#include "prepare/planning.h"
#include "weights/adapter_weights.h"

namespace plimsoll {
namespace {

// The planner's input for one size. The heap is part of the reserve for code.
struct Sized {
  Sized(const InferenceRequest& request, std::int64_t size, const InferenceRoom& room)
      : graph(request.build(size, request.base)),
        plan{.effective_batch = size, .micro_batch = size, .recompute = RecomputePolicy::none, .saves = false},
        machine(room.machine.machine),
        catalogue(catalogue_of(room.machine)) {
    machine.reserve.code += align_up(request.heap + adapter_heap(graph.model.graph), kPage);
  }

  PlanSpace space(std::vector<Bytes> beyond = {}) {
    plan.beyond = std::move(beyond);
    return {[&](std::int64_t) { return graph.model.graph; }, plan, machine, catalogue};
  }

  InferenceGraph graph;
  PlanRequest plan;
  Machine machine;
  OpCatalogue catalogue;
};

// The first storage of layers for which everything fits into memory.
std::optional<Change> smaller_base(InferenceRequest request, const InferenceRoom& room) {
  if (request.source == nullptr || request.base.format != BaseFormat::none) return {};
  for (const BaseFormat format : {BaseFormat::file, BaseFormat::bf16, BaseFormat::nf4}) {
    try {
      request.base = base_of(format, request.source->model, request.source->folder);
      if (Sized(request, request.sizes.back(), room).space().floor() <= room.memory) {
        return Change("quantize.base", std::string(name(format)));
      }
    } catch (const Error& error) {  // the file holds no blocks
      if (error.kind == ErrorKind::internal) throw;
    }
  }
  return {};
}

// Proposes the smallest budget, or a disk on which the parameters have room.
Error no_room(const InferenceRequest& request, const InferenceRoom& room, Sized& sized) {
  constexpr Bytes kUnbounded{std::numeric_limits<std::int64_t>::max()};
  add_known_disk_tier(sized.machine, room.disk.value_or(DiskBudget{".", kUnbounded}), TransferPolicy::automatic, room.cache);
  Bytes floor = sized.space().floor();
  PlanSpace space = sized.space({kUnbounded});
  const Plan& smallest = *space.fastest({space.floor(), {}, {}});
  const Bytes stored = smallest.stored[disk_of(sized.machine)];
  const bool on_disk = room.disk && stored <= room.disk->size;
  if (on_disk) floor = smallest.process;
  Remedies remedies;
  if (std::optional<Change> base = smaller_base(request, room)) remedies.push_back(*std::move(base));
  remedies.push_back(Change("memory.budget", floor.n));
  if (!on_disk && smallest.process <= room.memory) {
    const std::string size = std::to_string(stored.n);
    remedies.push_back(room.disk ? Change("memory.disk", room.disk->folder.string() + ":" + size) : advised_disk(size));
  }
  return {ErrorKind::user,
          ExitCode::does_not_fit,
          "E-PLAN-FIT",
          "plan",
          fmt::format("the smallest plan needs {} ({} bytes), the budget is {}", to_text(floor), floor.n, to_text(room.memory)),
          on_disk ? "a larger budget" : "a larger budget, or a disk for the parameters",
          std::move(remedies)};
}

// All in memory for the largest size that fits, else a part on the disk for the smallest size.
PlanRecord choose(const InferenceRequest& request, const InferenceRoom& room, bool floors_alone) {
  const Budget budget{room.memory, {}, {}};
  for (const std::int64_t size : request.sizes) {
    Sized sized(request, size, room);
    sized.plan.floor_only = floors_alone;
    PlanSpace space = sized.space();
    if (const Plan* plan = space.fastest(budget)) return record_of(*plan);
  }
  Sized smallest(request, request.sizes.back(), room);
  smallest.plan.floor_only = floors_alone;
  if (room.disk) {
    PlanSpace space = smallest.space({room.disk->size});
    if (const Plan* plan = space.fastest(budget)) return record_of(*plan);
  }
  throw no_room(request, room, smallest);
}

}  // namespace

InferenceRoom inference_room(const MemorySettings& memory, MachineRecord machine, const std::filesystem::path& cache,
                             const std::function<void(const std::string&)>& say) {
  Budget budget{memory.budget, {}, {}};
  settle_budget(budget, available_memory(), /*runs_now=*/true, nullptr);
  InferenceRoom room{*budget.memory, memory.disk, std::move(machine), cache};
  if (room.disk) add_disk_tier(room.machine.machine, *room.disk, TransferPolicy::automatic, cache, say);
  return room;
}

InferencePlan plan_inference(const InferenceRequest& request, const InferenceRoom& room) {
  const PlanRecord record = record_from_json(nlohmann::json::parse(plan_in_child([&](bool floors_alone) {
    keep_freed_memory();
    return to_json(choose(request, room, floors_alone)).dump();
  })));
  const std::int64_t size = record.decisions.micro_batch;
  Sized sized(request, size, room);
  const Graph& graph = sized.graph.model.graph;
  Plan plan = build_plan(graph, find_units(graph), record.decisions, sized.plan, sized.machine, sized.catalogue, &record.offsets);
  return {std::move(sized.graph), std::move(plan), size};
}

}  // namespace plimsoll
