#include "prepare/rank_plans.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "graph/exchange.h"
#include "ops/update/update.h"
#include "plan/build_plan.h"
#include "prepare/requests.h"

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
  std::set<ValueId> totals;  // of losses; the micro-batches of a group have versions of their own
  for (const Value& value : graph.values) {
    const bool summed = value.section == Section::micro && value.role == Role::output && value.version_of.valid();
    if (summed && value.type == ValueType{DType::f64, Shape{1}}) totals.insert(value.version_of);
  }
  numbers += std::ssize(totals);
  constexpr std::int64_t kData = 1;  // the state of its data
  return Bytes{(numbers * static_cast<std::int64_t>(sizeof(double)) + kRankStateBytes + kData) * (ranks - 1)};
}

RankBytes bytes_of(const Plan& plan, int rank, int ranks) {
  RankBytes bytes{.rank = rank,
                  .process = plan.process,
                  .arena = plan.arena,
                  .live = plan.live,
                  .sent = traffic_of(plan.graph, plan.decisions.window().rounds())};
  bytes.parameters = held(plan.graph, Role::parameter);
  bytes.gradients = held(plan.graph, Role::accumulator);
  bytes.state = held(plan.graph, Role::optimizer_state);
  bytes.sent.control += summed_bytes(plan.graph, ranks);
  return bytes;
}

Plan plan_of_rank(const Config& config, const PlanningInput& input, const PlanDecisions& decisions, int rank) {
  DataFacts facts = input.facts;
  facts.share.rank = rank;
  const Graph graph = build_training_graph(config, facts, decisions.micro_batch).graph;
  OpCatalogue catalogue = catalogue_of(input.machine);
  return build_plan(graph, find_units(graph), decisions, input.request, input.machine.machine, catalogue, nullptr);
}

}  // namespace

MachineRecord machine_for_ranks(MachineRecord record, int ranks, Bytes measured) {
  constexpr Bytes kAssumed{16 * kMiB.n};  // Open MPI 4.1 with shared memory
  ReserveModel& reserve = record.machine.reserve;
  if ((ranks > 1) == (reserve.peers.n > 0)) return record;
  reserve.peers = ranks == 1 ? Bytes{0} : measured.n > 0 ? measured : kAssumed;
  reserve.peers_assumed = ranks > 1 && measured.n == 0;
  return record;
}

int fullest_rank(const Config& config, const PlanningInput& input) {
  const std::int64_t rows = input.request.micro_batch.value_or(input.request.row_step);
  const PlanDecisions decisions{.micro_batch = rows, .accumulation = input.request.accumulation(rows)};
  int fullest = 0;
  Bytes most;
  for (int rank = 0; input.facts.share.ranks > 1 && rank < input.facts.share.ranks; ++rank) {
    const Bytes process = plan_of_rank(config, input, decisions, rank).process;
    if (process > most) most = process, fullest = rank;
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
    ranks.push_back(bytes_of(plan_of_rank(config, input, own.decisions, rank), rank, share.ranks));
  }
  return ranks;
}

void each_stage(const Config& config, const DataFacts& facts, const PlanRequest& request,
                const std::function<void(const DataFacts&, const PlanRequest&)>& plan) {
  if (facts.share.ranks == 1) return plan(facts, request);
  const std::int64_t first = config.parallel.zero.value_or(1), last = config.parallel.zero.value_or(kLastStage);
  std::optional<Error> refused;
  bool planned = false;
  DataFacts of_stage = facts;
  for (std::int64_t stage = first; stage <= last; ++stage) {
    try {
      of_stage.zero = stage;
      plan(of_stage, request_of_stage(request, stage));
      planned = true;
    } catch (const Error& error) {
      if (error.kind == ErrorKind::internal) throw;
      if (!refused) refused = error;
    }
  }
  if (!planned) throw Error(*refused);
}

Bytes floor_of_ranks(const Config& config, const PlanningInput& input, PlanSpace& space) {
  Budget smallest = input.budget;
  smallest.memory = space.floor();
  Bytes most = *smallest.memory;
  const auto best = space.best(smallest);
  if (const Plan* plan = std::get_if<Plan>(&best)) {
    for (const RankBytes& each : bytes_of_ranks(config, input, *plan)) most = std::max(most, each.process);
  }
  return most;
}

// Ranks differ by a few tiles. If another one exceeds the budget, the plan is sought for a budget that is smaller by that, down
// to the floor, which is that of the rank with the most bytes there.
RankPlans best_for_ranks(const Config& config, const PlanningInput& input, PlanSpace& space) {
  constexpr int kTries = 8;
  if (input.facts.share.ranks == 1) return {space.best(input.budget), {}};
  const auto planned = [&](const Budget& budget) {
    RankPlans plans{space.best(budget), {}};
    if (const Plan* plan = std::get_if<Plan>(&plans.best)) plans.ranks = bytes_of_ranks(config, input, *plan);
    return plans;
  };
  const auto most = [](const RankPlans& plans) { return std::ranges::max(plans.ranks, {}, &RankBytes::process).process; };
  Budget smallest = input.budget;
  smallest.memory = space.floor();
  RankPlans floor = planned(smallest);
  const Bytes least = floor.ranks.empty() ? *smallest.memory : most(floor);

  Budget budget = input.budget;
  RankPlans plans;
  const bool below = input.budget.memory && *input.budget.memory < least;
  for (int tries = 0; !below && tries < kTries; ++tries) {
    plans = planned(budget);
    if (plans.ranks.empty() || !input.budget.memory || most(plans) <= *input.budget.memory) break;
    budget.memory = *budget.memory - (most(plans) - *input.budget.memory);
  }
  const bool fits = !plans.ranks.empty() && (!input.budget.memory || most(plans) <= *input.budget.memory);
  if (below || floor.ranks.empty()) {
    budget.memory = *smallest.memory - Bytes{1};
    plans = planned(budget);
  } else if (!fits) {
    plans = std::move(floor);
  }
  if (Plan* plan = std::get_if<Plan>(&plans.best)) {
    plan->floor = std::max(plan->floor, least);
    plan->decisions.zero = input.facts.zero.value_or(1);
  } else {
    Infeasible& infeasible = std::get<Infeasible>(plans.best);
    infeasible.floor = std::max(infeasible.floor, least);
    if (input.budget.memory) infeasible.budget = *input.budget.memory;
  }
  return plans;
}

void add_ranks(json& object, const std::vector<RankBytes>& ranks, const Plan& own, const RankLink& link) {
  if (ranks.empty()) return;
  object["zero"] = own.decisions.zero;
  // Sums over a rank's micro-batches, then over ranks in their order: once a window, or once a round.
  const bool by_round = exchanges_in_rounds(own.graph) && own.decisions.window().rounds() > 1;
  object["reduction_tree"] = by_round ? "round" : "window";
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
  object["predicted"]["lanes"]["ranks"] = exchange_seconds(own.graph, own.decisions.window().rounds(), link);
  object["predicted"]["link"] = {{"bytes_per_second", link.bytes_per_second},
                                 {"latency_seconds", link.latency_seconds},
                                 {"source", link.assumed ? "assumed" : "measured"}};
}

}  // namespace plimsoll
