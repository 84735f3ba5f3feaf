#include "plan/block_options.h"

#include <gtest/gtest.h>

#include "plan/simulation.h"
#include "small_models.h"

namespace plimsoll {
namespace {

// What backward nodes and clones still read of a block's own values, and what its clones take.
struct Counted {
  std::int64_t kept = 0;
  double seconds = 0;
};

Counted count(const Graph& graph, const std::vector<GraphBlock>& blocks, std::size_t index, const BlockChoice& choice,
              NodeKernels& kernels) {
  const GraphBlock& block = blocks[index];
  std::vector<BlockChoice> choices(blocks.size(), BlockMode::keep);
  choices[index] = choice;
  const Graph rewritten = apply_replays(graph, replays_of_blocks(graph, blocks, choices));
  std::set<ValueId> inside, kept;
  for (std::size_t i = 0; i + 1 < block.nodes.size(); ++i) {
    for (const ValueId output : graph.nodes[block.nodes[i]].outputs) inside.insert(origin_of(graph, output));
  }
  Counted result;
  for (const NodeId id : rewritten.section_order(Section::micro)) {
    const Node& node = rewritten.nodes[id];
    if (!node.backward) continue;
    for (const ValueId input : node.inputs) {
      if (inside.contains(origin_of(rewritten, input))) kept.insert(origin_of(rewritten, input));
    }
    if (node.clone_of.valid() && !node.op->view) result.seconds += kernels.of(rewritten, id, 1).add.seconds;
  }
  for (const ValueId value : kept) result.kept += align_up(graph.values[value].bytes(), kAlignment).n;
  return result;
}

TEST(BlockOptions, SayWhatTheRewriteDoes) {
  int compared = 0;
  for (const ModelShape& shape : kShapes) {
    const Graph graph = build_training_graph(config_for(shape, 4, 0.1), kTrainAndValidate, 2).graph;
    const std::vector<GraphBlock> blocks = find_blocks(graph);
    OpCatalogue catalogue = round_catalogue();
    NodeKernels kernels(2, catalogue);
    ASSERT_FALSE(blocks.empty());
    const std::size_t middle = blocks.size() / 2;
    for (const BlockOption& option : block_options(block_curve(graph, blocks[middle], kernels), 100)) {
      const Counted counted = count(graph, blocks, middle, {BlockMode::cheap, option.again}, kernels);
      EXPECT_EQ(option.kept, counted.kept);
      EXPECT_NEAR(option.seconds, counted.seconds, 1e-12);
      ++compared;
    }
  }
  EXPECT_GE(compared, 6);
}

// Where numbers are of two widths, dropping one that is narrow may keep another that is wide.
TEST(BlockOptions, NoneKeepsMoreThanEverything) {
  for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
    for (const ModelShape& shape : kShapes) {
      Config config = config_for(shape, 4, 0.1);
      config.precision.compute = compute;
      const Graph graph = build_training_graph(config, kTrainAndValidate, 2).graph;
      const std::vector<GraphBlock> blocks = find_blocks(graph);
      OpCatalogue catalogue = round_catalogue();
      NodeKernels kernels(2, catalogue);
      const std::vector<BlockOption> curve = block_curve(graph, blocks[blocks.size() / 2], kernels);
      EXPECT_TRUE(curve.front().again.empty());
      for (std::size_t i = 1; i < curve.size(); ++i) {
        EXPECT_FALSE(curve[i].again.empty());
        EXPECT_LT(curve[i].kept, curve[i - 1].kept);
        EXPECT_GT(curve[i].seconds, curve[i - 1].seconds);
      }
    }
  }
}

// No set at all lies below the curve.
TEST(BlockOptions, NoSetIsBetter) {
  const Graph graph = build_training_graph(config_for({3, 64, 4, 128, 301}, 4), kTrainAndValidate, 2).graph;
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  OpCatalogue catalogue = round_catalogue();
  NodeKernels kernels(2, catalogue);
  ASSERT_EQ(blocks.size(), 3u);
  std::vector<BlockOption> curve = block_options(block_curve(graph, blocks[1], kernels), 100);
  ASSERT_GE(curve.size(), 2u);
  const Counted all = count(graph, blocks, 1, BlockMode::keep, kernels);
  curve.insert(curve.begin(), BlockOption{{}, 0, all.kept});
  for (std::size_t i = 2; i < curve.size(); ++i) {
    const auto slope = [&](std::size_t at) {
      return (curve[at].seconds - curve[at - 1].seconds) / static_cast<double>(curve[at - 1].kept - curve[at].kept);
    };
    EXPECT_LT(curve[i].kept, curve[i - 1].kept);
    EXPECT_GT(slope(i), slope(i - 1));
  }
  std::mt19937 random(3);
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    const Counted some = count(graph, blocks, 1, random_choice(random), kernels);
    for (std::size_t i = 1; i < curve.size(); ++i) {
      if (some.kept > curve[i - 1].kept || some.kept < curve[i].kept) continue;
      const double share =
          static_cast<double>(curve[i - 1].kept - some.kept) / static_cast<double>(curve[i - 1].kept - curve[i].kept);
      EXPECT_GE(some.seconds, curve[i - 1].seconds + share * (curve[i].seconds - curve[i - 1].seconds) - 1e-12);
      ++compared;
    }
  }
  EXPECT_GE(compared, 100);
}

TEST(BlockOptions, AreAsFewAsWanted) {
  const Graph graph = build_training_graph(config_for({3, 64, 4, 128, 301}, 4), kTrainAndValidate, 2).graph;
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  OpCatalogue catalogue = round_catalogue();
  NodeKernels kernels(2, catalogue);
  EXPECT_EQ(block_options(block_curve(graph, blocks[1], kernels), 0).size(), 0u);
  EXPECT_EQ(block_options(block_curve(graph, blocks[1], kernels), 2).size(), 2u);
}

}  // namespace
}  // namespace plimsoll
