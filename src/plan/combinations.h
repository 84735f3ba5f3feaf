// Which combinations of micro-batch size, values on other tiers, and micro-batches that go together are planned. Where keeping
// more layers in memory may be worth it, their number is bisected: each number takes a chain of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "plan/candidates.h"
#include "plan/plan.h"
#include "plan/tiers/resting.h"

namespace plimsoll {

class Combinations {
 public:
  struct Combination {
    std::size_t model, choice;
    Paging paging;  // of the choice, beside what the group needs
    std::int64_t group;
    bool floor;  // looks for the floor
  };

  // The request, the machine and the catalogue outlive this.
  Combinations(const GraphSource& source, const std::vector<std::int64_t>& sizes, const PlanRequest& request,
               const Machine& machine, KernelCatalogue& catalogue);
  void look_at_all();

  std::vector<std::unique_ptr<BatchModel>> models;  // by micro-batch size
  std::vector<Combination> list;
  std::vector<std::optional<BatchCandidates>> batches;  // by combination

 private:
  void add(std::size_t model, std::size_t choice, bool floor);
  void look_at(std::size_t combination);
  void divide(std::size_t model);

  const PlanRequest& request_;
  const Machine& machine_;
  std::vector<std::optional<Resting>> resting_;  // by model, as the next
  std::vector<std::vector<Choice>> choices_;
  std::mutex mutex_;
  Bytes least_bound_{std::numeric_limits<std::int64_t>::max()};
};

}  // namespace plimsoll
