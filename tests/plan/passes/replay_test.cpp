// Clones on a graph small enough to read: where they stand, what they are, who reads them.
#include "plan/passes/replay.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/expect_error.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape_ops.h"
#include "plan/passes/three_blocks.h"

namespace plimsoll {
namespace {

using Names = std::vector<std::string>;

// Forward: x -> dropped -> flat (a view) -> bent. Backward: three sums, each of which reads what is before it, bent and flat.
struct Hand {
  Graph graph;
  GraphBuilder builder{graph};

  Hand() {
    const ValueId x = builder.add_input("x", {DType::f32, {2, 8}}), samples = builder.add_input("samples", {DType::u32, {2, 2}});
    const ValueId dropped = ops::dropout(builder, x, samples, 0.5, /*seed=*/3);
    const ValueId flat = ops::reshape(builder, dropped, {16}, "flat");
    const ValueId bent = ops::gelu(builder, flat, "bent");
    builder.set_section(Section::micro, /*backward=*/true);
    const ValueId first = ops::add(builder, bent, flat, "first");
    const ValueId second = ops::add(builder, first, bent, "second");
    const ValueId third = ops::add(builder, second, flat, "third");
    graph.results = {ops::add(builder, third, bent, "last")};
    verify(graph);
  }
  NodeId node(const char* output) const { return graph.values[graph.find(output)].producer; }
  NodeReplay replay(const char* output, const char* before) const { return {node(output), node(before)}; }
  Graph with(const std::vector<NodeReplay>& replays) const {
    Graph result = apply_replays(graph, replays);
    verify(result);
    return result;
  }
};

Names names_of(const Graph& graph, const std::vector<ValueId>& values) {
  Names names;
  for (const ValueId value : values) names.push_back(graph.values[value].name.text());
  return names;
}
// The nodes in their order, by their outputs.
Names order_of(const Graph& graph) {
  std::vector<ValueId> outputs;
  for (const NodeId id : graph.order) outputs.push_back(graph.nodes[id].outputs.front());
  return names_of(graph, outputs);
}
Names inputs_of(const Graph& graph, const char* output) {
  return names_of(graph, graph.nodes[graph.values[graph.find(output)].producer].inputs);
}

TEST(ReplayPass, ACloneStandsRightBeforeItsReader) {
  const Hand hand;
  const Graph graph = hand.with({hand.replay("bent", "second")});
  EXPECT_EQ(order_of(graph), (Names{"dropped", "flat", "bent", "first", "bent'", "second", "third", "last"}));
}

TEST(ReplayPass, ReadersAfterACloneReadItAndEarlierOnesDoNot) {
  const Hand hand;
  const Graph graph = hand.with({hand.replay("bent", "second")});
  EXPECT_EQ(inputs_of(graph, "first"), (Names{"bent", "flat"}));
  EXPECT_EQ(inputs_of(graph, "second"), (Names{"first", "bent'"}));
  EXPECT_EQ(inputs_of(graph, "last"), (Names{"third", "bent'"}));
}

TEST(ReplayPass, ANodeThatRunsAgainTwiceIsReadFromItsNewestClone) {
  const Hand hand;
  const Graph graph = hand.with({hand.replay("bent", "second"), hand.replay("bent", "last")});
  const std::vector<NodeId> clones = nodes_where(graph, Section::micro, [](const Node& node) { return node.clone_of.valid(); });
  ASSERT_EQ(clones.size(), 2u);
  EXPECT_EQ(readers_of(graph, graph.nodes[clones.front()].outputs.front()), std::vector{hand.node("second")});
  EXPECT_EQ(readers_of(graph, graph.nodes[clones.back()].outputs.front()), std::vector{hand.node("last")});
}

TEST(ReplayPass, ReplaysBeforeOneNodeRunInTheirOrderAndReadEachOther) {
  const Hand hand;
  const Graph graph = hand.with({hand.replay("dropped", "third"), hand.replay("bent", "third")});
  EXPECT_EQ(order_of(graph),
            (Names{"dropped", "flat", "bent", "first", "second", "dropped'", "flat'", "bent'", "third", "last"}));
  EXPECT_EQ(inputs_of(graph, "bent'"), Names{"flat'"});
}

TEST(ReplayPass, AViewOfACloneIsANewView) {
  const Hand hand;
  const Graph graph = hand.with({hand.replay("dropped", "third")});
  EXPECT_EQ(inputs_of(graph, "flat'"), Names{"dropped'"});
  EXPECT_EQ(inputs_of(graph, "third"), (Names{"second", "flat'"}));
  EXPECT_EQ(inputs_of(graph, "first"), (Names{"bent", "flat"}));
}

TEST(ReplayPass, ACloneHasTheAttributesAndTheSiteOfItsNode) {
  const Hand hand;
  const Graph graph = hand.with({hand.replay("dropped", "third")});
  const Node& original = graph.nodes[hand.node("dropped")];
  const Node& clone = graph.nodes[graph.values[graph.find("dropped'")].producer];
  ASSERT_NE(original.site, 0u);
  EXPECT_EQ(clone.op, original.op);
  EXPECT_EQ(clone.attributes, original.attributes);
  EXPECT_EQ(clone.site, original.site);
  EXPECT_EQ(clone.line, original.line);
  EXPECT_EQ(clone.clone_of, hand.node("dropped"));
  EXPECT_TRUE(clone.backward) << "it runs for a node of the backward pass";
  const Value& output = graph.values[graph.find("dropped'")];
  EXPECT_EQ(output.clone_of, graph.find("dropped"));
  EXPECT_EQ(output.role, Role::recomputed);
  EXPECT_EQ(output.type, graph.values[graph.find("dropped")].type);
}

TEST(ReplayPass, IdsOfTheOriginalsKeepTheirMeaning) {
  const Hand hand;
  const Graph graph = hand.with({hand.replay("dropped", "third"), hand.replay("bent", "last")});
  for (std::size_t i = 0; i < hand.graph.values.size(); ++i) {
    EXPECT_EQ(graph.values[ValueId{i}].name, hand.graph.values[ValueId{i}].name);
    EXPECT_EQ(graph.values[ValueId{i}].producer, hand.graph.values[ValueId{i}].producer);
  }
  EXPECT_EQ(graph.results, hand.graph.results);
}

TEST(ReplayPass, NoReplaysChangeNothing) {
  const Hand hand;
  EXPECT_EQ(to_text(hand.with({})), to_text(hand.graph));
}

TEST(ReplayPass, AReplayPrecedesALaterNodeOfTheMicroStep) {
  const ThreeBlocks blocks;
  const Graph& graph = blocks.graph();
  const NodeId early = kernels_of_block(graph, "h.0", false).front(), late = kernels_of_block(graph, "h.1", false).front();
  const NodeId update = graph.section_order(Section::update).front(), nowhere{graph.nodes.size()};
  ASSERT_TRUE(may_run_again(graph, graph.nodes[early]));
  ASSERT_TRUE(may_run_again(graph, graph.nodes[late]));
  EXPECT_TRUE(are_possible(graph, {{early, late}}));
  EXPECT_FALSE(are_possible(graph, {{late, early}}));
  EXPECT_FALSE(are_possible(graph, {{early, early}}));
  EXPECT_FALSE(are_possible(graph, {{early, update}}));
  EXPECT_FALSE(are_possible(graph, {{early, nowhere}}));
  EXPECT_FALSE(are_possible(graph, {{nowhere, late}}));
  EXPECT_FALSE(are_possible(graph, {{early, late}, {late, early}})) << "all of them have to be possible";
  EXPECT_ERROR(apply_replays(graph, {{late, early}}), "E-INTERNAL", "cannot run again there");
}

TEST(ReplayPass, OnlyForwardNodesWithoutSideEffectsRunAgain) {
  const Hand hand;
  const auto may = [&](const char* output) { return may_run_again(hand.graph, hand.graph.nodes[hand.node(output)]); };
  EXPECT_TRUE(may("dropped"));
  EXPECT_TRUE(may("bent"));
  EXPECT_FALSE(may("flat")) << "a view";
  EXPECT_FALSE(may("first")) << "a backward node";
  const ThreeBlocks blocks;
  for (const Node& node : blocks.graph().nodes) {
    const auto aliases = aliases_of(blocks.graph(), node);
    const bool changes = std::ranges::any_of(aliases, [](const NodeAlias& alias) { return in_place(alias.kind); });
    if (node.op->chunked || node.section != Section::micro || changes) {
      EXPECT_FALSE(may_run_again(blocks.graph(), node)) << node.line.text();
    }
  }
}

TEST(ReplayPass, NodesThatStreamDoNotRunAgain) {
  Hand hand;
  Node& bent = hand.graph.nodes[hand.node("bent")];
  bent.pages = hand.graph.find("x");
  EXPECT_FALSE(may_run_again(hand.graph, bent));
}

}  // namespace
}  // namespace plimsoll
