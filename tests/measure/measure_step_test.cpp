// Kernels timed within a running step: all kernels of an update, once each; none if the step does not fit.
#include "measure/measure_step.h"

#include <gtest/gtest.h>

#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "plan/small_models.h"

namespace plimsoll {
namespace {

TEST(MeasureStep, TimesEveryKernelOfAnUpdate) {
  const Config config = config_for({3, 64, 2, 24, 301}, 4, 0.1);
  const Graph graph = build_training_graph(config, kTrainAndValidate, 2).graph;
  const StepMeasurement step = measure_step(graph, 2, round_machine(), {.seconds = 0.05, .memory = kGiB, .others = 1});
  ASSERT_TRUE(step.fits);
  for (const auto& [key, seconds] : step.seconds) {
    EXPECT_GT(seconds, 0) << key;
    EXPECT_LT(seconds, 1) << key;
  }
  // With these kernels, no time of an update is a bound, with any recomputation. Kernels that only evaluation runs were not
  // requested.
  Machine machine = round_machine();
  for (const BlockMode mode : {BlockMode::keep, BlockMode::recompute}) {
    PlanDecisions decisions{.micro_batch = 2, .accumulation = 2};
    const std::vector<Unit> layers = layers_of(graph);
    decisions.replays = replays_of_blocks(graph, layers, std::vector<BlockChoice>(layers.size(), mode));
    OpCatalogue catalogue({}, {step.seconds.begin(), step.seconds.end()});
    const Plan plan = build_plan(graph, find_units(graph), decisions, plan_request(config), machine, catalogue, nullptr);
    EXPECT_EQ(plan.costs_bound, 0);
    EXPECT_GT(plan.costs_recorded, 50);
    EXPECT_GT(plan.update_seconds, 0);
  }
  const std::string evaluated = "linear_cross_entropy[]";
  EXPECT_TRUE(std::none_of(step.seconds.begin(), step.seconds.end(),
                           [&](const auto& entry) { return entry.first.starts_with(evaluated); }));
}

TEST(MeasureStep, NothingWhereItDoesNotFit) {
  const Graph graph = build_training_graph(config_for({3, 64, 2, 24, 301}, 4), kTrainAndValidate, 2).graph;
  const StepMeasurement step = measure_step(graph, 2, round_machine(), {.memory = kMiB});
  EXPECT_FALSE(step.fits);
  EXPECT_TRUE(step.seconds.empty());
}

TEST(MeasureStep, NothingWhereItTakesTooLong) {
  const Graph graph = build_training_graph(config_for({3, 64, 2, 24, 301}, 4), kTrainAndValidate, 2).graph;
  const StepMeasurement step = measure_step(graph, 2, round_machine(), {.step_seconds = 0, .memory = kGiB});
  EXPECT_TRUE(step.fits);
  EXPECT_TRUE(step.seconds.empty());
}

}  // namespace
}  // namespace plimsoll
