#include "infer/inference_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/child.h"
#include "base/disk_folder.h"
#include "base/error.h"
#include "base/shell.h"
#include "measure/measure_disk.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "prepare/planning.h"
#include "weights/adapter_weights.h"

namespace plimsoll {
namespace {

// The plans of one size by number. 0 holds everything in memory. 1 to the number of blocks: the parameters of that many blocks
// rest on the disk. The next adds tables; the next holds one matrix of a block at a time; the last has small pages.
class Plans {
 public:
  Plans(const InferenceRequest& request, std::int64_t size, const InferenceRoom& room)
      : heap_(request.heap),
        size_(size),
        room_(room),
        catalogue_(room.machine.machine.rates, {}),
        graph_(request.build(size, request.base)),
        units_(find_units(graph_.model.graph)),
        block_count_(static_cast<std::size_t>(block_count(units_))) {
    heap_ += adapter_heap(graph_.model.graph);
  }

  std::size_t count() const { return block_count_ + 4; }

  Plan plan(std::size_t number, const std::vector<Bytes>* offsets = nullptr) {
    PlanDecisions decisions{.micro_batch = size_};
    decisions.residency = residency(number);
    PlanRequest request;
    request.saves = false;
    Plan plan = build_plan(graph_.model.graph, units_, decisions, request, room_.machine.machine, catalogue_, offsets);
    if (heap_.n > 0) {
      plan.reserve.push_back({"vocabulary", align_up(heap_, kPage), "counted"});
      plan.process += plan.reserve.back().bytes;
    }
    return plan;
  }

  // The smallest plan, with its number, among those that keep no block in memory.
  std::pair<std::size_t, Plan> smallest() {
    std::pair best(block_count_, plan(block_count_));
    for (std::size_t number = best.first + 1; number < count(); ++number) {
      Plan other = plan(number);
      if (other.process < best.second.process) best = {number, std::move(other)};
    }
    return best;
  }

  bool fits(const Plan& plan) const { return plan.process <= room_.memory; }
  InferenceGraph take() { return std::move(graph_); }

 private:
  Residency residency(std::size_t number) const {
    if (number == 0) return {};
    Residency residency{.pages = {kLargePage, kPageSlots}, .parameters = kBeyond};
    residency.keep(static_cast<int>(block_count_ - std::min(number, block_count_)));
    residency.tables.beyond = number > block_count_;
    residency.by_matrix = number > block_count_ + 1;
    if (number > block_count_ + 2) residency.pages.elements = kSmallPage;
    return residency;
  }

  Bytes heap_;
  std::int64_t size_;
  const InferenceRoom& room_;
  OpCatalogue catalogue_;
  InferenceGraph graph_;
  std::vector<Unit> units_;
  std::size_t block_count_;
};

struct Chosen {
  std::size_t size = 0, number = 0;
};

// The first storage of layers for which everything fits into memory.
std::optional<Change> smaller_base(InferenceRequest request, const InferenceRoom& room) {
  if (request.source == nullptr || request.base.format != BaseFormat::none) return {};
  for (const auto& [name, format] : {std::pair("file", BaseFormat::file), {"bf16", BaseFormat::bf16}, {"nf4", BaseFormat::nf4}}) {
    try {
      request.base = base_of(format, request.source->model, request.source->folder);
      Plans plans(request, request.sizes.back(), room);
      if (plans.fits(plans.plan(0))) return Change("quantize.base", name);
    } catch (const Error& error) {  // the file holds no blocks
      if (error.kind == ErrorKind::internal) throw;
    }
  }
  return {};
}

Error no_room(const InferenceRequest& request, const InferenceRoom& room, const Plan& memory, const Plan& smallest) {
  const bool on_disk = room.disk && smallest.stored[1] <= room.disk->size;
  const Bytes floor = on_disk ? std::min(smallest.process, memory.process) : memory.process;
  Remedies remedies;
  if (std::optional<Change> base = smaller_base(request, room)) remedies.push_back(*std::move(base));
  remedies.push_back(Change("memory.budget", floor.n));
  if (!on_disk && smallest.process <= room.memory) {
    const std::string size = std::to_string(smallest.stored[1].n);
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

// From 1 on, larger numbers take less memory: bisection finds the first that fits.
Chosen choose(const InferenceRequest& request, const InferenceRoom& room) {
  for (std::size_t i = 0; i < request.sizes.size(); ++i) {
    Plans plans(request, request.sizes[i], room);
    if (plans.fits(plans.plan(0))) return {i, 0};
  }
  Plans plans(request, request.sizes.back(), room);
  auto [found, smallest] = plans.smallest();
  std::size_t low = 1;
  const bool on_disk = room.disk && smallest.stored[1] <= room.disk->size;
  if (!on_disk || !plans.fits(smallest)) throw no_room(request, room, plans.plan(0), smallest);
  while (low < found) {
    const std::size_t middle = low + (found - low) / 2;
    if (plans.fits(plans.plan(middle))) {
      found = middle;
    } else {
      low = middle + 1;
    }
  }
  return {request.sizes.size() - 1, found};
}

}  // namespace

InferenceRoom inference_room(const MemorySettings& memory, MachineRecord machine, const std::filesystem::path& cache,
                             const std::function<void(const std::string&)>& say) {
  Budget budget{memory.budget, {}, {}};
  settle_budget(budget, available_memory(), /*runs_now=*/true, nullptr);
  InferenceRoom room{*budget.memory, memory.disk, std::move(machine)};
  if (room.disk) add_disk_tier(room.machine.machine, *room.disk, TransferPolicy::automatic, cache, say);
  return room;
}

// The child returns its choice and the offsets.
InferencePlan plan_inference(const InferenceRequest& request, const InferenceRoom& room) {
  const std::string answer = run_in_child([&] {
    const Chosen chosen = choose(request, room);
    Plans plans(request, request.sizes[chosen.size], room);
    const Plan plan = plans.plan(chosen.number);
    std::string text(reinterpret_cast<const char*>(&chosen), sizeof chosen);
    return text.append(reinterpret_cast<const char*>(plan.offsets.data()), plan.offsets.size() * sizeof(Bytes));
  });
  Chosen chosen;
  std::memcpy(&chosen, answer.data(), sizeof chosen);
  std::vector<Bytes> offsets((answer.size() - sizeof chosen) / sizeof(Bytes));
  std::memcpy(offsets.data(), answer.data() + sizeof chosen, offsets.size() * sizeof(Bytes));
  InferencePlan result{{}, {}, request.sizes[chosen.size]};
  Plans plans(request, result.size, room);
  result.plan = plans.plan(chosen.number, &offsets);
  result.graph = plans.take();
  return result;
}

}  // namespace plimsoll
