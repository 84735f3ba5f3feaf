// Blocks found from the graph, and recomputation as a rewrite: the cloned nodes, the parts of a clone, and no other change.

#include "plan/block_replays.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/small_models.h"

namespace plimsoll {
namespace {

Graph training_graph(const ModelShape& shape, std::int64_t micro = 2) {
  return build_training_graph(config_for(shape, micro), kTrainAndValidate, micro).graph;
}

std::vector<BlockChoice> uniform(const Graph& graph, const std::vector<Unit>& units, BlockMode mode) {
  std::vector<BlockChoice> choices;
  for (const Unit& block : units) choices.push_back(choice_of(graph, block, mode));
  return choices;
}

Graph recomputed(const Graph& graph, const std::vector<Unit>& units, const std::vector<BlockChoice>& choices) {
  return apply_replays(graph, replays_of_blocks(graph, units, choices));
}

TEST(Blocks, AreTheLayersOfTheModel) {
  for (const ModelShape& shape : kShapes) {
    const Graph graph = training_graph(shape);
    const std::vector<Unit> units = layers_of(graph);
    ASSERT_EQ(units.size(), static_cast<std::size_t>(shape.layers));
    for (std::size_t i = 0; i < units.size(); ++i) {
      EXPECT_EQ(units[i].name, "h." + std::to_string(i));
      EXPECT_EQ(units[i].nodes.size(), units[0].nodes.size());
      for (const NodeId id : units[i].nodes) {
        EXPECT_EQ(graph.nodes[id].line.text().rfind(units[i].name + ".", 0), 0u) << graph.nodes[id].line.text();
        EXPECT_FALSE(graph.nodes[id].backward);
      }
    }
  }
}

TEST(Recompute, KeepingEverythingChangesNothing) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<Unit> units = layers_of(graph);
  EXPECT_EQ(graph_hash(recomputed(graph, units, uniform(graph, units, BlockMode::keep))), graph_hash(graph));
}

void expect_clones_are_copies(const Graph& graph, const Graph& before) {
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    if (!node.clone_of.valid()) continue;
    const Node& original = before.nodes[node.clone_of];
    EXPECT_EQ(node.op, original.op);
    EXPECT_EQ(node.attributes, original.attributes);
    EXPECT_EQ(node.site, original.site);
    EXPECT_EQ(node.line, original.line);
    EXPECT_TRUE(node.backward);
    ASSERT_EQ(node.outputs.size(), original.outputs.size());
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      EXPECT_EQ(graph.values[node.outputs[i]].clone_of, original.outputs[i]);
      EXPECT_EQ(graph.values[node.outputs[i]].role, Role::recomputed);
    }
    ASSERT_EQ(node.inputs.size(), original.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i], clone_of = graph.values[input].clone_of;
      EXPECT_TRUE(input == original.inputs[i] || clone_of == original.inputs[i]);
    }
  }
}

TEST(Recompute, ClonesCarryOpAttributesAndSite) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<Unit> units = layers_of(graph);
  for (const BlockMode mode : {BlockMode::cheap, BlockMode::recompute, BlockMode::pieces, BlockMode::joined}) {
    const Graph rewritten = recomputed(graph, units, uniform(graph, units, mode));
    verify(rewritten);
    expect_clones_are_copies(rewritten, graph);
    EXPECT_GT(rewritten.nodes.size(), graph.nodes.size());
    if (mode == BlockMode::cheap) continue;
    // Random ops are among the clones: their noise is replayed, not stored.
    EXPECT_TRUE(std::any_of(rewritten.nodes.begin(), rewritten.nodes.end(),
                            [](const Node& node) { return node.clone_of.valid() && node.op->random; }));
  }
}

TEST(Recompute, OriginalIdsKeepTheirMeaning) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<Unit> units = layers_of(graph);
  const Graph rewritten = recomputed(graph, units, uniform(graph, units, BlockMode::recompute));
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    EXPECT_EQ(rewritten.values[ValueId{i}].name, graph.values[ValueId{i}].name);
}

}  // namespace
}  // namespace plimsoll
