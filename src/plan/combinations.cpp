#include "plan/combinations.h"

#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "base/tasks.h"
#include "plan/tiers/resting.h"

namespace plimsoll {
namespace {

struct Combination {
  BatchModel* model;
  Paging paging;
  std::int64_t group;
  bool floor;  // looks for the floor
};

// The floor is that of the smallest micro-batch, in memory alone or with as much as possible on the disk.
std::vector<Combination> combinations_of(BatchModel& model, bool smallest, const PlanRequest& request, const Machine& machine) {
  const Resting resting(model, smallest, request, machine);
  const std::vector<Paging> choices = resting.choices();
  std::vector<Combination> list;
  for (std::size_t choice = choices.size(); choice-- > 0;) {
    const bool end = choice + 1 == choices.size() || !choices[choice].active();
    for (const std::int64_t group : resting.groups(choices[choice])) {
      const std::optional<Paging> own = resting.beside_group(choices[choice], group);
      if (own) list.push_back({&model, *own, group, smallest && end && group == 1});
    }
  }
  return list;
}

}  // namespace

Combinations find_combinations(const GraphSource& source, const std::vector<std::int64_t>& sizes, const PlanRequest& request,
                               const Machine& machine, KernelCatalogue& catalogue) {
  Combinations result;
  result.models.resize(sizes.size());
  std::vector<std::vector<Combination>> by_size(sizes.size());
  run_tasks(sizes.size(), [&](std::size_t i) {
    result.models[i] =
        std::make_unique<BatchModel>(source(sizes[i]), sizes[i], request.accumulation(sizes[i]), machine.threads, catalogue);
    by_size[i] = combinations_of(*result.models[i], i == 0, request, machine);
  });
  std::vector<Combination> list;
  for (const std::vector<Combination>& some : by_size) list.insert(list.end(), some.begin(), some.end());
  // Of bounds the least one counts; past what is known of it, others need not be.
  std::mutex mutex;
  Bytes least_bound{std::numeric_limits<std::int64_t>::max()};
  std::vector<std::optional<BatchCandidates>> batches(list.size());
  run_tasks(list.size(), [&](std::size_t i) {
    BatchCandidates::Floor floor{list[i].floor, {}};
    {
      const std::lock_guard lock(mutex);
      floor.enough = least_bound;
    }
    batches[i].emplace(*list[i].model, list[i].paging, list[i].group, request, machine, floor);
    const Bytes bound = batches[i]->bound();
    const std::lock_guard lock(mutex);
    least_bound = std::min(least_bound, bound);
  });
  for (std::optional<BatchCandidates>& batch : batches) result.batches.push_back(*std::move(batch));
  return result;
}

}  // namespace plimsoll
