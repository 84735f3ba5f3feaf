// The order of a window's micro-batches: replicas, the order of their additions, and the reasons against a group. tests/run
// compares the bits.
#include "plan/passes/grouping.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "formats/expect_error.h"
#include "plan/passes/paging.h"
#include "plan/passes/three_blocks.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kGroup = 3;

Graph grouped(const ThreeBlocks& blocks, std::int64_t group = kGroup) {
  Graph graph = apply_grouping(blocks.graph(), blocks.units, group, /*narrow=*/false);
  verify(graph);
  return graph;
}

// The number of the micro-batch that a value belongs to.
std::size_t micro_batch_of(const Graph& graph, ValueId value) {
  const ValueId original = graph.values[value].replica_of;
  const std::vector<ValueId> all = replicas_of(graph, original.valid() ? original : value);
  return static_cast<std::size_t>(std::ranges::find(all, value) - all.begin());
}

TEST(GroupingPass, EachNodeOfTheMicroStepRunsForEachMicroBatch) {
  const ThreeBlocks blocks;
  const Graph graph = grouped(blocks);
  PerNode<int> replicas(graph.nodes.size());
  for (const Node& node : graph.nodes) {
    if (node.replica_of.valid()) ++replicas[node.replica_of];
  }
  for (std::size_t i = 0; i < blocks.graph().nodes.size(); ++i) {
    const Node& node = graph.nodes[NodeId{i}];
    EXPECT_EQ(replicas[NodeId{i}], node.section == Section::micro ? kGroup - 1 : 0) << node.line.text();
  }
  EXPECT_EQ(graph.section_order(Section::update), blocks.graph().section_order(Section::update));
}

TEST(GroupingPass, AReplicaIsLikeItsNode) {
  const ThreeBlocks blocks;
  const Graph graph = grouped(blocks);
  for (const Node& node : graph.nodes) {
    if (!node.replica_of.valid()) continue;
    const Node& original = graph.nodes[node.replica_of];
    EXPECT_EQ(node.op, original.op);
    EXPECT_EQ(node.attributes, original.attributes);
    EXPECT_EQ(node.site, original.site);
    EXPECT_EQ(node.line, original.line);
    EXPECT_EQ(types_of(graph, node.inputs), types_of(graph, original.inputs));
  }
}

TEST(GroupingPass, EachMicroBatchHasInputsOfItsOwn) {
  const ThreeBlocks blocks;
  const Graph graph = grouped(blocks);
  for (const Field& input : blocks.model.micro.inputs) {
    if (!blocks.graph().values[input.value].fed_in(Section::micro)) continue;
    const std::vector<ValueId> each = replicas_of(graph, input.value);
    ASSERT_EQ(each.size(), static_cast<std::size_t>(kGroup)) << input.name;
    EXPECT_EQ(each.back(), input.value) << "the last micro-batch keeps the ids of the graph";
    for (const ValueId value : each) EXPECT_TRUE(graph.values[value].fed_in(Section::micro));
  }
  EXPECT_ERROR(replicas_of(graph, {}), "E-INTERNAL", "replicas of no value");
}

// A node and the temporary values that it reads and writes belong to one micro-batch.
TEST(GroupingPass, MicroBatchesDoNotReadEachOther) {
  const ThreeBlocks blocks;
  const Graph graph = grouped(blocks);
  for (const NodeId id : graph.section_order(Section::micro)) {
    const Node& node = graph.nodes[id];
    std::set<std::size_t> batches;
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const ValueId value : *values) {
        if (!graph.values[origin_of(graph, value)].persistent()) batches.insert(micro_batch_of(graph, value));
      }
    }
    EXPECT_LE(batches.size(), 1u) << node.line.text();
  }
}

TEST(GroupingPass, AccumulatorsGetTheirAdditionsInTheOrderOfTheMicroBatches) {
  const ThreeBlocks blocks;
  const Graph graph = grouped(blocks);
  const ValueId accumulator = graph.find(kAccumulator);
  std::vector<std::size_t> batches;
  ValueId newest = accumulator;
  for (const NodeId id : graph.section_order(Section::micro)) {
    for (const NodeAlias& alias : aliases_of(graph, graph.nodes[id])) {
      if (alias.kind != AliasKind::accumulates || origin_of(graph, alias.output) != accumulator) continue;
      batches.push_back(micro_batch_of(graph, alias.output));
      EXPECT_EQ(alias.input, newest) << "each addition continues from the one before";
      newest = alias.output;
    }
  }
  EXPECT_EQ(batches, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_LT(newest.index, blocks.graph().values.size()) << "the last sum keeps its id";
}

// Segments of a wide pass end with their block, those of a narrow one with the use of a matrix from another tier.
TEST(GroupingPass, NarrowSegmentsUseOneMatrix) {
  const ThreeBlocks blocks;
  const Residency residency{.pages = kFewPages, .optimizer_state = kBeyond, .parameters = kBeyond, .by_matrix = true};
  const Graph paged = apply_paging(blocks.graph(), blocks.units, residency);
  const auto matrices_in_order = [&](bool narrow) {
    const Graph graph = apply_grouping(paged, blocks.units, kGroup, narrow);
    verify(graph);
    std::vector<std::string> matrices;  // of the forward pass, equal neighbours once
    for (const NodeId id : graph.section_order(Section::micro)) {
      for (const ValueId input : graph.nodes[id].inputs) {
        const Value& value = graph.values[input];
        if (graph.nodes[id].backward || value.tier == 0) continue;
        if (matrices.empty() || matrices.back() != value.name.text()) matrices.push_back(value.name.text());
      }
    }
    return matrices;
  };
  const std::size_t count = matrices_of_blocks({"h.0", "h.1", "h.2"}).size();
  EXPECT_EQ(matrices_in_order(true).size(), count) << "all micro-batches use a matrix before the next one";
  EXPECT_EQ(matrices_in_order(false).size(), count * kGroup);
}

TEST(GroupingPass, AGroupOfOneChangesNothing) {
  const ThreeBlocks blocks;
  EXPECT_EQ(to_text(grouped(blocks, 1)), to_text(blocks.graph()));
}

TEST(GroupingPass, RoundsAreTheMicroStepsOfAWindow) {
  EXPECT_EQ((WindowOrder{.accumulation = 8, .group = 2}).rounds(), 4);
  EXPECT_EQ(WindowOrder{}.rounds(), 1);
}

TEST(GroupingPass, TellsWhyNot) {
  const ThreeBlocks blocks;
  EXPECT_EQ(why_not_grouped(blocks.graph(), blocks.units, kMostGroup), "");
  EXPECT_EQ(why_not_grouped(blocks.graph(), {}, 1), "") << "a group of one is always possible";
  EXPECT_EQ(why_not_grouped(blocks.graph(), {}, 2), "the model has no repeated blocks");
  const std::size_t nodes = blocks.graph().section_order(Section::micro).size();
  EXPECT_EQ(why_not_grouped(blocks.graph(), blocks.units, kMostGroup + 1),
            fmt::format("{} micro-batches of {} nodes each are too many for a group", kMostGroup + 1, nodes));
}

// Two blocks that share a matrix would add to its gradient in another order.
TEST(GroupingPass, RefusesAnAccumulatorOfSeveralSegments) {
  const ThreeBlocks blocks;
  Graph graph = blocks.graph();
  const ValueId shared = graph.find(kAccumulator), other = graph.find("h.0.mlp.c_fc.weight.grad");
  for (Node& node : graph.nodes) std::ranges::replace(node.inputs, other, shared);
  for (Value& value : graph.values) {
    if (value.version_of == other) value.version_of = shared;
  }
  EXPECT_TRUE(may_group(blocks.graph(), blocks.units));
  EXPECT_FALSE(may_group(graph, blocks.units));
  EXPECT_EQ(why_not_grouped(graph, blocks.units, 2),
            "several blocks of this model add to one gradient, and a group would change their order");
  EXPECT_ERROR(apply_grouping(graph, blocks.units, 2, false), "E-INTERNAL", "several segments add to one accumulator");
}

}  // namespace
}  // namespace plimsoll
