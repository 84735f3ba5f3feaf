// Blocks found from the graph, and recomputation as a rewrite: what is cloned, what a clone is, and that nothing else changes.

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

std::vector<BlockChoice> uniform(const Graph& graph, const std::vector<GraphBlock>& blocks, BlockMode mode) {
  std::vector<BlockChoice> choices;
  for (const GraphBlock& block : blocks) choices.push_back(choice_of(graph, block, mode));
  return choices;
}

Graph recomputed(const Graph& graph, const std::vector<GraphBlock>& blocks, const std::vector<BlockChoice>& choices) {
  return apply_replays(graph, replays_of_blocks(graph, blocks, choices));
}

TEST(Blocks, AreTheLayersOfTheModel) {
  for (const ModelShape& shape : kShapes) {
    const Graph graph = training_graph(shape);
    const std::vector<GraphBlock> blocks = find_blocks(graph);
    ASSERT_EQ(blocks.size(), static_cast<std::size_t>(shape.layers));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      EXPECT_EQ(blocks[i].name, "h." + std::to_string(i));
      EXPECT_EQ(blocks[i].nodes.size(), blocks[0].nodes.size());
      for (const NodeId id : blocks[i].nodes) {
        EXPECT_EQ(graph.nodes[id].line.text().rfind(blocks[i].name + ".", 0), 0u) << graph.nodes[id].line.text();
        EXPECT_FALSE(graph.nodes[id].backward);
      }
    }
  }
}

TEST(Recompute, KeepingEverythingChangesNothing) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  EXPECT_EQ(graph_hash(recomputed(graph, blocks, uniform(graph, blocks, BlockMode::keep))), graph_hash(graph));
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

// The forward values of a block that backward nodes or clones read in the rewritten graph, the block's own output left out.
std::set<ValueId> kept_values(const Graph& graph, const GraphBlock& block) {
  std::set<ValueId> inside, kept;
  for (const NodeId id : block.nodes) {
    if (id != block.nodes.back()) inside.insert(graph.nodes[id].outputs.begin(), graph.nodes[id].outputs.end());
  }
  for (const NodeId id : graph.section_order(Section::micro)) {
    if (!graph.nodes[id].backward) continue;
    for (const ValueId input : graph.nodes[id].inputs) {
      if (inside.count(input) > 0) kept.insert(input);
    }
  }
  return kept;
}

TEST(Recompute, ClonesCarryOpAttributesAndSite) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  for (const BlockMode mode : {BlockMode::cheap, BlockMode::recompute, BlockMode::pieces, BlockMode::joined}) {
    const Graph rewritten = recomputed(graph, blocks, uniform(graph, blocks, mode));
    verify(rewritten);
    expect_clones_are_copies(rewritten, graph);
    EXPECT_GT(rewritten.nodes.size(), graph.nodes.size());
    if (mode == BlockMode::cheap) continue;
    // Random ops are among the clones: their noise is replayed, not stored.
    EXPECT_TRUE(std::any_of(rewritten.nodes.begin(), rewritten.nodes.end(),
                            [](const Node& node) { return node.clone_of.valid() && node.op->random; }));
  }
}

TEST(Recompute, OnlyTheBlockInputStaysOrTheCostlyResults) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  const Graph all = recomputed(graph, blocks, uniform(graph, blocks, BlockMode::recompute));
  const Graph cheap = recomputed(graph, blocks, uniform(graph, blocks, BlockMode::cheap));
  for (const GraphBlock& block : blocks) {
    EXPECT_TRUE(kept_values(all, block).empty());
    EXPECT_FALSE(kept_values(cheap, block).empty());
    EXPECT_LT(kept_values(cheap, block).size(), kept_values(graph, block).size());
  }
  for (const Node& node : cheap.nodes) EXPECT_FALSE(node.clone_of.valid() && node.op->costly) << node.line.text();
}

TEST(Recompute, NothingIsClonedMoreOftenThanNeededOrUnread) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  for (const BlockMode mode : {BlockMode::cheap, BlockMode::recompute, BlockMode::pieces, BlockMode::joined}) {
    const Graph rewritten = recomputed(graph, blocks, uniform(graph, blocks, mode));
    // In pieces: once on the way through, once for the piece's own backward nodes; a layer norm once more for a weight gradient.
    const std::size_t most = mode == BlockMode::pieces || mode == BlockMode::joined ? 2 : 1;
    std::multiset<NodeId> originals;
    std::set<ValueId> read;
    for (const Node& node : rewritten.nodes) read.insert(node.inputs.begin(), node.inputs.end());
    for (const Node& node : rewritten.nodes) {
      if (!node.clone_of.valid()) continue;
      originals.insert(node.clone_of);
      const bool again = most > 1 && node.op->name == std::string("layer_norm");
      EXPECT_LE(originals.count(node.clone_of), again ? most + 1 : most) << node.line.text();
      EXPECT_TRUE(std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return read.count(id) > 0; }))
          << node.line.text() << " is computed again for nobody";
    }
  }
}

// Forward values that live until the backward pass.
std::set<ValueId> all_kept(const Graph& graph) {
  std::set<ValueId> kept;
  for (const NodeId id : graph.section_order(Section::micro)) {
    if (!graph.nodes[id].backward) continue;
    for (const ValueId input : graph.nodes[id].inputs) {
      const NodeId producer = graph.values[input].producer;
      if (producer.valid() && !graph.nodes[producer].backward) kept.insert(input);
    }
  }
  return kept;
}

TEST(Recompute, JoinedBlocksShareOneKeptInput) {
  const Graph graph = training_graph({4, 32, 2, 16, 64});
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  ASSERT_EQ(blocks.size(), 4u);
  const auto kept = [&](const std::vector<BlockChoice>& choices) { return all_kept(recomputed(graph, blocks, choices)).size(); };
  const std::size_t each = kept(uniform(graph, blocks, BlockMode::pieces));
  EXPECT_EQ(each, kept(uniform(graph, blocks, BlockMode::recompute)));
  EXPECT_EQ(kept({BlockMode::pieces, BlockMode::joined, BlockMode::pieces, BlockMode::joined}), each - 2);
  EXPECT_EQ(kept({BlockMode::pieces, BlockMode::joined, BlockMode::joined, BlockMode::joined}), each - 3);
}

TEST(Recompute, PiecesOfABlockAreRecomputedOneAfterTheOther) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  ASSERT_EQ(blocks.front().cuts.size(), 2u) << "attention and the MLP";
  const Graph rewritten = recomputed(graph, blocks, uniform(graph, blocks, BlockMode::pieces));
  // Attention runs again on the way to the MLP's input, and once more after the MLP's backward nodes.
  for (const GraphBlock& block : blocks) {
    std::vector<std::string> order;
    for (const NodeId id : rewritten.section_order(Section::micro)) {
      const Node& node = rewritten.nodes[id];
      const bool in_block = node.line.text().rfind(block.name + ".", 0) == 0;
      if (!in_block || !node.backward) continue;
      if (node.clone_of.valid() && node.op->name == std::string("attention")) order.push_back("attention");
      if (!node.clone_of.valid() && node.op->name == std::string("gelu_backward")) order.push_back("mlp backward");
    }
    EXPECT_EQ(order, (std::vector<std::string>{"attention", "mlp backward", "attention"})) << block.name;
  }
}

// What a linear layer of a piece was recomputed from does not lie about until the layer's weight gradient wants it.
TEST(Recompute, InPiecesALayerNormIsMadeAgainForAWeightGradient) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  const Graph rewritten = recomputed(graph, blocks, uniform(graph, blocks, BlockMode::pieces));
  std::size_t gradients = 0;
  for (const NodeId id : rewritten.section_order(Section::micro)) {
    const Node& node = rewritten.nodes[id];
    if (!node.backward || node.clone_of.valid() || node.op->name != std::string("matmul")) continue;
    for (const ValueId input : node.inputs) {
      const NodeId producer = rewritten.values[input].producer;
      if (!producer.valid() || !rewritten.nodes[producer].clone_of.valid()) continue;
      if (rewritten.nodes[producer].op->name != std::string("layer_norm")) continue;
      ++gradients;
      for (const Node& reader : rewritten.nodes) {
        if (!reader.clone_of.valid()) continue;
        EXPECT_EQ(std::count(reader.inputs.begin(), reader.inputs.end(), input), 0) << reader.line.text() << " reads it too";
      }
    }
  }
  EXPECT_EQ(gradients, 2 * blocks.size()) << "attention's and the MLP's first layer of each block";
}

TEST(Recompute, OriginalIdsKeepTheirMeaning) {
  const Graph graph = training_graph(kShapes[0]);
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  const Graph rewritten = recomputed(graph, blocks, uniform(graph, blocks, BlockMode::recompute));
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    EXPECT_EQ(rewritten.values[ValueId{i}].name, graph.values[ValueId{i}].name);
}

}  // namespace
}  // namespace plimsoll
