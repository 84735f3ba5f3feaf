#include "plan/search/combinations.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

#include "base/tasks.h"
#include "plan/search/frontier.h"
#include "plan/search/resting.h"

namespace plimsoll {
namespace {

// The stages of the search, in order. Each may show that the later ones are not worth it.
enum class Stage { ends, choices, middle_levels, levels };

struct Combination {
  BatchModel* model;
  Residency residency;
  std::int64_t group;
  bool floor;  // may have the floor
  Stage stage;
};

// The last level of a paging keeps the values of the fewest blocks.
Stage stage_of(const std::vector<Residency>& choices, std::size_t choice) {
  const Residency& residency = choices[choice];
  if (choice + 1 == choices.size() || !residency.active()) return Stage::ends;
  const auto like = [&](const Residency& other) { return residency.like(other); };
  const auto first = std::ranges::find_if(choices, like) - choices.begin();
  const auto levels = std::ranges::count_if(choices, like) - 1, level = static_cast<std::ptrdiff_t>(choice) - first;
  if (level == levels) return Stage::choices;
  return level == levels / 2 ? Stage::middle_levels : Stage::levels;
}

// The floor comes from the smallest micro-batch, either all in memory or as much as possible on the disk.
std::vector<Combination> combinations_of(BatchModel& model, bool smallest, const PlanRequest& request, const Machine& machine) {
  const Resting resting(model, smallest, request, machine);
  const std::vector<Residency> choices = resting.choices();
  std::vector<Combination> list;
  for (std::size_t choice = choices.size(); choice-- > 0;) {
    const Stage stage = stage_of(choices, choice);
    for (const std::int64_t group : resting.groups(choices[choice])) {
      const std::optional<Residency> own = resting.beside_group(choices[choice], group);
      const bool end = stage == Stage::ends && group == 1;
      if (own) list.push_back({&model, *own, group, smallest && end, stage == Stage::ends && !end ? Stage::choices : stage});
    }
  }
  return list;
}

// Finds combinations for one micro-batch size after the other, as far as they may add to the front.
class Finder {
 public:
  Finder(const PlanRequest& request, const Machine& machine) : request_(request), machine_(machine) {}

  // A larger micro-batch has larger activations and shorter waits. If waits are short and neither end (all in memory, as much as
  // possible elsewhere) adds to the front, the levels between do not either.
  void find(const std::vector<Combination>& list) {
    const std::size_t before = batches_.size();
    find(list, Stage::ends);
    const bool adds = before == 0 || limits_host(request_, machine_) ||
                      !std::all_of(batches_.begin() + static_cast<std::ptrdiff_t>(before), batches_.end(),
                                   [&](const BatchCandidates& batch) { return covered(batch) && waits_little(batch); });
    learn(before);
    if (request_.floor_only) return find_narrow(list);
    if (!adds) return;
    const std::size_t ends = batches_.size();
    find(list, Stage::choices);
    learn(ends);
    const std::size_t middle = batches_.size();
    find(list, Stage::middle_levels);
    std::vector<Combination> levels;
    for (const Combination& each : list) {
      if (each.stage == Stage::levels && gains_by_levels(each, middle)) levels.push_back(each);
    }
    learn(middle);
    const std::size_t others = batches_.size();
    find(levels, Stage::levels);
    learn(others);
  }

  std::vector<BatchCandidates> batches() && { return std::move(batches_); }

 private:
  static constexpr double kMargin = 0.02;  // for ops that run again, whose share may differ

  void find(const std::vector<Combination>& list, Stage stage) {
    std::vector<const Combination*> some;
    for (const Combination& each : list) {
      if (each.stage == stage) some.push_back(&each);
    }
    find(some);
  }

  // Tries narrow combinations of large pages, which take fewer instructions.
  void find_narrow(const std::vector<Combination>& list) {
    std::vector<const Combination*> some;
    for (const Combination& each : list) {
      if (each.stage == Stage::choices && each.residency.by_matrix && each.group == 1) some.push_back(&each);
    }
    find(some);
  }

  void find(const std::vector<const Combination*>& some) {
    // Only the least bound counts: a bound above the least known one need not be exact.
    std::mutex mutex;
    std::vector<std::optional<BatchCandidates>> found(some.size());
    run_tasks(some.size(), [&](std::size_t i) {
      BatchCandidates::Floor floor{some[i]->floor, {}};
      {
        const std::lock_guard lock(mutex);
        floor.enough = least_bound_;
      }
      found[i].emplace(*some[i]->model, some[i]->residency, some[i]->group, request_, machine_, floor,
                       [&](const BatchCandidates& batch) { return wanted(batch); });
      found[i]->forget_other_edges();
      const Bytes bound = found[i]->bound();
      const std::lock_guard lock(mutex);
      least_bound_ = std::min(least_bound_, bound);
    });
    for (std::optional<BatchCandidates>& batch : found) batches_.push_back(*std::move(batch));
  }

  void learn(std::size_t from) {
    for (std::size_t i = from; i < batches_.size(); ++i) {
      if (batches_[i].exact()) front_.add(batches_[i].all(i));
    }
  }

  static bool waits_little(const BatchCandidates& batch) {
    return batch.levels() == 0 || std::ranges::any_of(batch.all(0), [&](const Candidate& each) {
             return each.update_seconds <= (1 + kMargin) * batch.kernel_seconds();
           });
  }

  bool covered(const BatchCandidates& batch) const { return batch.exact() && front_.covers(batch.all(0), kLeastGain); }

  // With all values in memory only kernels take time, so a larger micro-batch with slower kernels never pays.
  bool wanted(const BatchCandidates& batch) const {
    if (batch.residency().active()) return true;
    const auto beats = [&](const BatchCandidates& other) {
      const bool smaller = other.model().micro_batch < batch.model().micro_batch && !other.residency().active();
      return smaller && other.window().group == batch.window().group &&
             batch.kernel_seconds() > (1 + kMargin) * other.kernel_seconds();
    };
    return std::ranges::none_of(batches_, beats);
  }

  // A level is tried if the middle level adds to the front, or if this level may. Its estimate takes the waits from the
  // middle level, and gives equal bytes to each kept block.
  bool gains_by_levels(const Combination& level, std::size_t middle) const {
    const BatchCandidates *few = nullptr, *some = nullptr;
    for (const BatchCandidates& batch : batches_) {
      if (&batch.model() != level.model || batch.window().group != level.group || !batch.residency().like(level.residency))
        continue;
      (&batch - batches_.data() < static_cast<std::ptrdiff_t>(middle) ? few : some) = &batch;
    }
    constexpr int kFewBlocks = 8;  // each block is a large step
    if (few == nullptr || some == nullptr || level.model->blocks <= kFewBlocks || !covered(*some)) return true;
    const auto fastest = [](const BatchCandidates& batch) {
      return std::ranges::min(batch.all(0), {}, &Candidate::update_seconds);
    };
    const Bytes more = fastest(*some).held() - fastest(*few).held();
    const std::int64_t blocks = level.residency.kept() - some->residency().kept();
    std::vector<Candidate> candidates = some->all(0);
    for (Candidate& each : candidates) each.live.n += more.n * blocks / (some->residency().kept() - few->residency().kept());
    return !front_.covers(candidates, kLeastGain);
  }

  const PlanRequest& request_;
  const Machine& machine_;
  std::vector<BatchCandidates> batches_;
  Front front_;
  Bytes least_bound_{std::numeric_limits<std::int64_t>::max()};
};

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
  Finder finder(request, machine);
  for (const std::vector<Combination>& some : by_size) finder.find(some);
  result.batches = std::move(finder).batches();
  return result;
}

}  // namespace plimsoll
