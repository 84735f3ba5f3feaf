// The pass that measures gradient noise: its nodes, its place on the timeline, and the bytes that live through it.
#include "autodiff/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "ops/embedding/embedding.h"
#include "ops/update/update.h"
#include "plan/small_models.h"
#include "program/program.h"

namespace plimsoll {
namespace {

Config measured(const ModelShape& shape, std::int64_t effective_batch = 8) {
  Config config = config_for(shape, effective_batch);
  config.train.noise_every = 1;
  return config;
}

Section noise_of(const Graph& graph) { return graph.find_forward("noise").value(); }

TEST(NoisePass, HasTheNodesOfTheNormAndChangesNothing) {
  for (const ModelShape& shape : kShapes) {
    const Graph graph = build_training_graph(measured(shape), kTrainAndValidate, 2).graph;
    std::int64_t sums = 0, measures = 0;
    for (const NodeId id : graph.section_order(Section::update)) sums += graph.nodes[id].op == &ops::kSumOfSquares ? 1 : 0;
    for (const NodeId id : graph.section_order(noise_of(graph))) {
      const Node& node = graph.nodes[id];
      measures += node.op == &ops::kSumOfSquares || node.op == &ops::kSquaresWithRows ? 1 : 0;
      for (const NodeAlias& alias : aliases_of(graph, node)) EXPECT_FALSE(in_place(alias.kind)) << node.line.text();
      for (const ValueId input : node.inputs) {
        const Value& value = graph.values[input];
        EXPECT_TRUE(value.section == node.section || value.role == Role::accumulator) << value.name.text();
      }
    }
    EXPECT_EQ(measures, sums);
    EXPECT_GT(measures, 0);
  }
}

TEST(NoisePass, RunsWithinAWindowOfSeveralRounds) {
  const Graph graph = build_training_graph(measured(kShapes[0]), kTrainAndValidate, 2).graph;
  const Phase phase = phase_of(noise_of(graph));
  EXPECT_TRUE(reads_window(graph, phase));
  EXPECT_FALSE(reads_window(graph, phase_of(graph.find_forward("evaluate").value())));
  EXPECT_FALSE(reads_window(graph, Phase::steady));
  EXPECT_FALSE(reads_window(graph, Phase::save));
  const Timeline one = make_timeline(graph, 1, true), several = make_timeline(graph, 4, true);
  EXPECT_TRUE(one.of(phase).empty());
  EXPECT_EQ(one.window, one.micro.begin);
  EXPECT_FALSE(several.of(phase).empty());
  EXPECT_EQ(several.window, several.of(phase).begin);
  EXPECT_EQ(several.of(phase).end, several.micro.begin);
}

// All that a window holds stays where it is, and the other phases have the bytes that they have without a measurement.
TEST(NoisePass, KeepsTheWindowInPlace) {
  for (const ModelShape& shape : kShapes) {
    std::vector<Residency> residencies(std::begin(kStreamedBlocks), std::end(kStreamedBlocks));
    residencies.emplace_back();
    const std::vector<BlockChoice> keep(static_cast<std::size_t>(shape.layers), BlockMode::keep);
    for (const Residency& residency : residencies) {
      Config config = measured(shape);
      const Plan plan = plan_with(config, 2, keep, 1, kTrainAndValidate, residency);
      config.train.noise_every = 0;
      const Plan without = plan_with(config, 2, keep, 1, kTrainAndValidate, residency);
      const StepRange noise = plan.timeline.of(phase_of(noise_of(plan.graph)));
      for (const Buffer& buffer : plan.lifetimes.buffers) {
        if (!buffer.value.valid() || buffer.persistent || !plan.graph.values[buffer.value].persistent()) continue;
        EXPECT_LE(buffer.begin, noise.begin) << plan.graph.values[buffer.value].name.text();
        EXPECT_GE(buffer.end, noise.end) << plan.graph.values[buffer.value].name.text();
      }
      EXPECT_NO_THROW(verify(lower(plan), plan.graph));
      for (const PhasePlan& phase : without.phases) {
        const auto same = std::ranges::find(plan.phases, phase.name, &PhasePlan::name);
        ASSERT_NE(same, plan.phases.end());
        EXPECT_EQ(same->live, phase.live) << phase.name;
      }
      const auto measure = std::ranges::find(plan.phases, "noise", &PhasePlan::name);
      ASSERT_NE(measure, plan.phases.end());
      EXPECT_GT(measure->seconds, 0);
      EXPECT_EQ(plan.update_seconds, without.update_seconds);
    }
  }
}

}  // namespace
}  // namespace plimsoll
