// What a layout is too high for goes back to the schedule.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "plan/small_models.h"
#include "prepare/plan_json.h"

namespace plimsoll {
namespace {

struct Place {
  Machine machine;
  std::vector<Bytes> beyond;
};

PlanRequest request_for_place(const Config& config, const Place& place) {
  PlanRequest request = plan_request(config);
  request.beyond = place.beyond;
  return request;
}

// The same plan from the file's decisions and addresses.
void expect_same_from_file(const Plan& plan, const Config& config, const Place& place) {
  const PlanRecord record = record_from_json(nlohmann::json::parse(to_json(record_of(plan)).dump()));
  EXPECT_EQ(record.decisions.late, plan.decisions.late);
  const Graph graph = build_training_graph(config, kTrainAndValidate, record.decisions.micro_batch).graph;
  OpCatalogue catalogue = round_catalogue();
  const Plan again = build_plan(graph, find_blocks(graph), record.decisions, request_for_place(config, place), place.machine,
                                catalogue, &record.offsets);
  EXPECT_EQ(again.plan_hash, plan.plan_hash);
  EXPECT_EQ(again.arena, plan.arena);
}

TEST(HandBack, PlansWhoseTransfersBeginLaterAreKeptInFiles) {
  const Config config = config_for({8, 64, 4, 32, 97}, 4, 0.1);
  const Place place{round_machine(), {kGiB * 8}};
  constexpr BlockMode kModes[] = {BlockMode::keep, BlockMode::cheap, BlockMode::recompute, BlockMode::pieces};
  std::mt19937 random(1);
  int late = 0;
  for (int round = 0; round < 400 && late < 2; ++round) {
    std::vector<BlockChoice> choices;
    for (int i = 0; i < 8; ++i) choices.emplace_back(kModes[random() % 4]);
    const std::int64_t micro = 1 + static_cast<std::int64_t>(random() % 2);
    const Paging paging{kPageStep, 4, true, random() % 2 == 0};
    const Plan plan = plan_with(config, micro, choices, 1, kTrainAndValidate, paging);
    if (plan.decisions.late.empty()) continue;
    ++late;
    expect_same_from_file(plan, config, place);
  }
  EXPECT_EQ(late, 2);
}

// Whatever transfers that begin later leave of a plan: budgets are answered, and more of them is never slower.
TEST(HandBack, EveryBudgetOfADeepModelHasAPlan) {
  const Config config = config_for({24, 256, 8, 64, 997}, 8, 0.1);
  for (const Place& place : {Place{round_machine(), {kGiB * 8}}, Place{round_device(), {kGiB * 8, kGiB * 8}}}) {
    SCOPED_TRACE(place.machine.tiers[1].name);
    OpCatalogue catalogue = round_catalogue();
    PlanSpace space(source_for(config), request_for_place(config, place), place.machine, catalogue);
    EXPECT_TRUE(std::holds_alternative<Plan>(space.best({})));
    double before = 0;
    for (int i = 12; i >= 0; --i) {
      const Bytes budget{space.floor().n + (space.ceiling().n - space.floor().n) * i / 12};
      const auto best = space.best({budget, {}, {}});
      ASSERT_TRUE(std::holds_alternative<Plan>(best)) << i;
      EXPECT_LE(std::get<Plan>(best).process, budget);
      EXPECT_GE(std::get<Plan>(best).update_seconds, before);
      before = std::get<Plan>(best).update_seconds;
    }
  }
}

}  // namespace
}  // namespace plimsoll
