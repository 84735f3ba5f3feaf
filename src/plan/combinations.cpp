#include "plan/combinations.h"

#include <algorithm>

#include "base/tasks.h"

namespace plimsoll {

// The floor is that of the smallest micro-batch, in memory alone or with as much as possible on the disk.
Combinations::Combinations(const GraphSource& source, const std::vector<std::int64_t>& sizes, const PlanRequest& request,
                           const Machine& machine, KernelCatalogue& catalogue)
    : models(sizes.size()), request_(request), machine_(machine), resting_(sizes.size()), choices_(sizes.size()) {
  run_tasks(sizes.size(), [&](std::size_t i) {
    models[i] =
        std::make_unique<BatchModel>(source(sizes[i]), sizes[i], request.accumulation(sizes[i]), machine.threads, catalogue);
    resting_[i].emplace(*models[i], i == 0, request, machine);
    choices_[i] = resting_[i]->choices();
  });
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    bool most = true;
    for (std::size_t choice = choices_[i].size(); choice-- > 0;) {
      add(i, choice, most || !choices_[i][choice].paging.active());
      most = most && !choices_[i][choice].has_room();
    }
  }
}

void Combinations::add(std::size_t model, std::size_t choice, bool floor) {
  const Paging& paging = choices_[model][choice].paging;
  if (!choices_[model][choice].has_room()) return;
  for (const std::int64_t group : resting_[model]->groups(paging)) {
    const std::optional<Paging> own = resting_[model]->beside_group(paging, group);
    if (own) list.push_back({model, choice, *own, group, floor && model == 0 && group == 1});
  }
}

// Of bounds the least one counts; past what is known of it, others need not be.
void Combinations::look_at(std::size_t combination) {
  const Combination& from = list[combination];
  BatchCandidates::Floor floor{from.floor, {}};
  {
    const std::lock_guard lock(mutex_);
    floor.enough = least_bound_;
  }
  batches[combination].emplace(*models[from.model], from.paging, from.group, request_, machine_, floor);
  const Bytes bound = batches[combination]->bound(machine_);
  const std::lock_guard lock(mutex_);
  least_bound_ = std::min(least_bound_, bound);
}

// What is worth a look between the choices so far; what no tier has room for only shows where else to look.
void Combinations::divide(std::size_t model) {
  std::vector<Choice>& choices = choices_[model];
  for (bool room = false; !room;) {
    const std::vector<Choice> more = resting_[model]->between(choices);
    if (more.empty()) return;
    for (const Choice& choice : more) {
      choices.push_back(choice);
      add(model, choices.size() - 1, false);
      room = room || choice.has_room();
    }
  }
}

void Combinations::look_at_all() {
  for (std::size_t known = 0; known < list.size();) {
    batches.resize(list.size());
    run_tasks(list.size() - known, [&](std::size_t i) { look_at(known + i); });
    for (; known < batches.size(); ++known) {
      std::optional<double>& seconds = choices_[list[known].model][list[known].choice].seconds;
      for (const Candidate& end : batches[known]->ends(known)) {
        seconds = std::min(seconds.value_or(end.update_seconds), end.update_seconds);
      }
    }
    for (std::size_t model = 0; model < models.size(); ++model) divide(model);
  }
}

}  // namespace plimsoll
