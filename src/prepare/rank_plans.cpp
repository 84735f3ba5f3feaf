#include "prepare/rank_plans.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/image_rules.h"
#include "ops/update/update.h"
#include "plan/build_plan.h"

namespace plimsoll {
namespace {

using nlohmann::json;

Bytes held(const Graph& graph, Role role) {
  Bytes bytes;
  for (const Value& value : graph.values) {
    if (value.persistent() && value.role == role) bytes += value.bytes();
  }
  return bytes;
}

// Numbers that every rank sends to all others after an update (train/trainer.h).
Bytes summed_bytes(const Graph& graph, int ranks) {
  std::int64_t numbers = 0;
  for (const ValueId result : graph.results) {
    const NodeId producer = graph.values[result].producer;
    if (producer.valid() && graph.nodes[producer].op == &ops::kReport) numbers += graph.values[result].type.shape.elements();
  }
  for (const Value& value : graph.values) {  // the totals of losses
    const bool summed = value.section == Section::micro && value.role == Role::output && value.version_of.valid();
    if (summed && value.type == ValueType{DType::f64, Shape{1}}) ++numbers;
  }
  return Bytes{numbers * static_cast<std::int64_t>(sizeof(double)) * (ranks - 1)};
}

RankBytes bytes_of(const Plan& plan, int rank, int ranks) {
  RankBytes bytes{.rank = rank, .process = plan.process, .arena = plan.arena, .live = plan.live, .sent = traffic_of(plan.graph)};
  bytes.parameters = held(plan.graph, Role::parameter);
  bytes.gradients = held(plan.graph, Role::accumulator);
  bytes.state = held(plan.graph, Role::optimizer_state);
  bytes.sent.control += summed_bytes(plan.graph, ranks);
  return bytes;
}

}  // namespace

int fullest_rank(const Config& config, const DataFacts& facts) {
  const std::int64_t rows = std::max<std::int64_t>(1, stat_batch(config));
  int fullest = 0;
  Bytes most;
  for (int rank = 0; rank < facts.share.ranks; ++rank) {
    DataFacts of_rank = facts;
    of_rank.share.rank = rank;
    const Bytes state = held(build_training_graph(config, of_rank, rows).graph, Role::optimizer_state);
    if (state > most) most = state, fullest = rank;
  }
  return fullest;
}

std::vector<RankBytes> bytes_of_ranks(const Config& config, const PlanningInput& input, const Plan& own) {
  const RankShare share = input.facts.share;
  std::vector<RankBytes> ranks;
  for (int rank = 0; share.ranks > 1 && rank < share.ranks; ++rank) {
    if (rank == share.rank) {
      ranks.push_back(bytes_of(own, rank, share.ranks));
      continue;
    }
    DataFacts facts = input.facts;
    facts.share.rank = rank;
    const Graph graph = build_training_graph(config, facts, own.decisions.micro_batch).graph;
    OpCatalogue catalogue = catalogue_of(input.machine);
    const Plan plan =
        build_plan(graph, find_units(graph), own.decisions, input.request, input.machine.machine, catalogue, nullptr);
    ranks.push_back(bytes_of(plan, rank, share.ranks));
  }
  return ranks;
}

// Ranks differ by a few tiles. If another one exceeds the budget, the plan is sought for a budget that is smaller by that.
RankPlans best_for_ranks(const Config& config, const PlanningInput& input, PlanSpace& space) {
  constexpr int kTries = 8;
  Budget budget = input.budget;
  RankPlans plans{space.best(budget), {}};
  for (int tries = 0; tries < kTries; ++tries) {
    const Plan* plan = std::get_if<Plan>(&plans.best);
    if (plan == nullptr) break;
    plans.ranks = bytes_of_ranks(config, input, *plan);
    if (plans.ranks.empty() || !input.budget.memory) return plans;
    const Bytes most = std::ranges::max(plans.ranks, {}, &RankBytes::process).process;
    if (most <= *input.budget.memory) return plans;
    budget.memory = *budget.memory - (most - *input.budget.memory);
    plans.best = space.best(budget);
  }
  plans.ranks.clear();
  // What the fullest rank needs beyond this one counts as needed here.
  if (Infeasible* infeasible = std::get_if<Infeasible>(&plans.best); infeasible != nullptr && input.budget.memory) {
    infeasible->floor += *input.budget.memory - infeasible->budget;
    infeasible->budget = *input.budget.memory;
  }
  return plans;
}

void add_ranks(json& object, const std::vector<RankBytes>& ranks, const Plan& own) {
  if (ranks.empty()) return;
  // Sums over a rank's micro-batches, then over ranks in their order, once a window.
  object["reduction_tree"] = "window";
  json list = json::array();
  for (const RankBytes& each : ranks) {
    list.push_back(
        {{"rank", each.rank},
         {"process_bytes", each.process.n},
         {"arena_bytes", each.arena.n},
         {"live_bytes", each.live.n},
         {"shard", {{"parameters", each.parameters.n}, {"gradients", each.gradients.n}, {"state", each.state.n}}},
         {"sent",
          {{"parameters", each.sent.parameters.n}, {"gradients", each.sent.gradients.n}, {"control", each.sent.control.n}}}});
  }
  object["ranks"] = std::move(list);
  const RankLink link;
  object["predicted"]["lanes"]["ranks"] = exchange_seconds(own.graph, link);
  object["predicted"]["link"] = {{"bytes_per_second", link.bytes_per_second},
                                 {"latency_seconds", link.latency_seconds},
                                 {"source", link.assumed ? "assumed" : "measured"}};
}

}  // namespace plimsoll
