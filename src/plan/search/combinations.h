// Selects the combinations of micro-batch size, residency and group to plan.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plan/search/candidates.h"

namespace plimsoll {

struct Combinations {
  std::vector<std::unique_ptr<BatchModel>> models;  // by micro-batch size
  std::vector<BatchCandidates> batches;
};

// The request, the machine and the catalogue outlive the result.
Combinations find_combinations(const GraphSource& source, const std::vector<std::int64_t>& sizes, const PlanRequest& request,
                               const Machine& machine, KernelCatalogue& catalogue);

}  // namespace plimsoll
