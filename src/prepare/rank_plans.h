// The plans of all ranks that train together. They share the decisions; sizes of state and addresses differ. The budget holds for
// each of them.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <variant>
#include <vector>

#include "plan/search/space.h"
#include "plan/tiers/rank_link.h"
#include "prepare/planning.h"

namespace plimsoll {

// Bytes of the state that ranks exchange after each update (session/session_ranks.cpp).
inline constexpr std::int64_t kRankStateBytes = 32;

// The bytes of a rank's plan.
struct RankBytes {
  int rank = 0;
  Bytes process, arena, live;
  Bytes parameters, gradients, state;  // that the rank holds
  RankTraffic sent;                    // in an update
};

// The machine with the memory of messages between ranks, if there are several: as measured when they started, else assumed.
MachineRecord machine_for_ranks(MachineRecord machine, int ranks, Bytes measured = {});

// The rank whose plan has the most bytes, by plans that keep everything; 0 for one process.
int fullest_rank(const Config& config, const PlanningInput& input);

struct RankPlans {
  std::variant<Plan, Infeasible> best;  // of the rank of the facts
  std::vector<RankBytes> ranks;         // of all; empty for one process, or if nothing fits
};
// The fastest plan of the space whose decisions fit the budget on every rank.
RankPlans best_for_ranks(const Config& config, const PlanningInput& input, PlanSpace& space);
// Plans with each stage of ZeRO that the configuration allows, the one that sends the least first; once for one process. A stage
// that refuses the configuration is left out. Throws the first refusal if all do. `plan` gets the facts and the request of the
// stage.
void each_stage(const Config& config, const DataFacts& facts, const PlanRequest& request,
                const std::function<void(const DataFacts&, const PlanRequest&)>& plan);
// The least budget that every rank fits.
Bytes floor_of_ranks(const Config& config, const PlanningInput& input, PlanSpace& space);
// The bytes of all ranks under these decisions; `own` is the plan of the facts' rank.
std::vector<RankBytes> bytes_of_ranks(const Config& config, const PlanningInput& input, const Plan& own);
// Adds the stage "zero", "reduction_tree", "ranks" and the lane of exchanges to a plan's JSON.
void add_ranks(nlohmann::json& object, const std::vector<RankBytes>& ranks, const Plan& own, const RankLink& link);

}  // namespace plimsoll
