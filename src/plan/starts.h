// The starts of planning: which micro-batch sizes there are, what may rest on other tiers with each, how many go together, and
// from which ends of each a plan is looked for.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "plan/candidates.h"
#include "plan/plan.h"
#include "plan/resting.h"

namespace plimsoll {

// What plans start from: micro-batch sizes, what rests on other tiers with each, and how many go together.
class Starts {
 public:
  struct Start {
    std::size_t model, choice;
    Paging paging;  // of the choice, beside what the group needs
    std::int64_t group;
    bool floor;  // looks for the floor
  };

  // The request, the machine and the catalogue outlive this.
  Starts(const GraphSource& source, const std::vector<std::int64_t>& sizes, const PlanRequest& request, const Machine& machine,
         KernelCatalogue& catalogue);
  void look_at_all();

  std::vector<std::unique_ptr<BatchModel>> models;  // by micro-batch size
  std::vector<Start> list;
  std::vector<std::optional<BatchCandidates>> batches;  // by start

 private:
  void start_with(std::size_t model, std::size_t choice, bool floor);
  void look_at(std::size_t start);
  void divide(std::size_t model);

  const PlanRequest& request_;
  const Machine& machine_;
  std::vector<std::optional<Resting>> resting_;  // by model, as the next
  std::vector<std::vector<Choice>> choices_;
  std::mutex mutex_;
  Bytes least_bound_{std::numeric_limits<std::int64_t>::max()};
};

}  // namespace plimsoll
