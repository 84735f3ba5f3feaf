// Fetches and stores of a small model: when they begin, when they are waited for, and who reads the copies.
#include "plan/passes/fetching.h"

#include <gtest/gtest.h>

#include "plan/passes/paging.h"
#include "plan/passes/three_blocks.h"

namespace plimsoll {
namespace {

constexpr Residency kBlocksBeyond{.pages = kFewPages, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond};

enum class Width : std::uint8_t { wide, narrow };
enum class Window : std::uint8_t { one_round, several_rounds };

struct Fetched {
  ThreeBlocks blocks;
  Graph paged = apply_paging(blocks.graph(), blocks.units, kBlocksBeyond);
  Graph graph;
  PerNode<std::size_t> places;

  explicit Fetched(Width width, Window window = Window::several_rounds)
      : graph(apply_fetching(paged, blocks.units, width == Width::narrow, window == Window::several_rounds)),
        places(places_of(graph)) {
    verify(graph);
  }
  std::size_t place(NodeId node) const { return places[node]; }
  // The wait for the copy that a fetch begins.
  NodeId wait_of(NodeId fetch) const {
    const std::vector<NodeId> readers = readers_of(graph, graph.nodes[fetch].outputs.front());
    EXPECT_EQ(readers.size(), 1u);
    EXPECT_EQ(graph.nodes[readers.front()].op, &kFetched);
    return readers.front();
  }
  std::vector<NodeId> users_of(NodeId fetch) const { return readers_of(graph, graph.nodes[wait_of(fetch)].outputs.front()); }
};

TEST(FetchingPass, KernelsReadAndWriteCopiesOfWhatRestsElsewhere) {
  for (const Width width : {Width::wide, Width::narrow}) {
    const Fetched fetched(width);
    for (const NodeId id : fetched.graph.section_order(Section::micro)) {
      const Node& node = fetched.graph.nodes[id];
      if (node.op->transfer != Transfer::none) continue;
      for (const ValueId value : node.inputs) EXPECT_EQ(fetched.graph.values[value].tier, 0) << node.line.text();
      for (const ValueId value : node.outputs) EXPECT_EQ(fetched.graph.values[value].tier, 0) << node.line.text();
    }
  }
}

TEST(FetchingPass, EachPassThroughABlockFetchesAMatrixOnceAndWaitsForIt) {
  const Fetched fetched(Width::wide);
  const std::vector<NodeId> fetches = transfers_of_value(fetched.graph, kFetch, kMatrix);
  ASSERT_EQ(fetches.size(), 2u);
  EXPECT_FALSE(fetched.graph.nodes[fetches.front()].backward);
  EXPECT_TRUE(fetched.graph.nodes[fetches.back()].backward);
  for (const NodeId fetch : fetches) {
    EXPECT_EQ(fetched.graph.nodes[fetch].inputs, std::vector{fetched.graph.find(kMatrix)});
    EXPECT_LT(fetched.place(fetch), fetched.place(fetched.wait_of(fetch)));
    ASSERT_FALSE(fetched.users_of(fetch).empty());
    for (const NodeId user : fetched.users_of(fetch)) {
      EXPECT_EQ(fetched.graph.nodes[user].backward, fetched.graph.nodes[fetch].backward);
    }
  }
  EXPECT_TRUE(transfers_of_value(fetched.graph, kStore, kMatrix).empty()) << "no kernel of the micro-step changes it";
}

TEST(FetchingPass, ACopyIsOfTheValueThatRestsElsewhere) {
  const Fetched fetched(Width::wide);
  const NodeId fetch = transfers_of_value(fetched.graph, kFetch, kMatrix).front();
  const ValueId matrix = fetched.graph.find(kMatrix);
  for (const NodeId id : {fetch, fetched.wait_of(fetch)}) {
    const Value& copy = fetched.graph.values[fetched.graph.nodes[id].outputs.front()];
    EXPECT_EQ(copy.copy_of, matrix);
    EXPECT_EQ(copy.type, fetched.graph.values[matrix].type);
    EXPECT_EQ(copy.role, Role::pages);
    EXPECT_EQ(copy.section, Section::micro);
  }
}

TEST(FetchingPass, ParametersComeInWhileTheBlockBeforeRuns) {
  const Fetched fetched(Width::wide);
  const std::vector<NodeId> before = kernels_of_block(fetched.graph, "h.0", false);
  const NodeId fetch = transfers_of_value(fetched.graph, kFetch, kMatrix).front();
  EXPECT_LT(fetched.place(fetch), fetched.place(before.back()));
  EXPECT_GT(fetched.place(fetched.wait_of(fetch)), fetched.place(before.back()));
  EXPECT_EQ(fetched.place(fetched.wait_of(fetch)) + 1, fetched.place(fetched.users_of(fetch).front()));
}

TEST(FetchingPass, AccumulatorsGoOutAfterTheLastAddition) {
  for (const Width width : {Width::wide, Width::narrow}) {
    const Fetched fetched(width);
    const std::vector<NodeId> stores = transfers_of_value(fetched.graph, kStore, kAccumulator);
    const std::vector<NodeId> waits = transfers_of_value(fetched.graph, kStored, kAccumulator);
    const std::vector<NodeId> fetches = transfers_of_value(fetched.graph, kFetch, kAccumulator);
    ASSERT_EQ(stores.size(), 1u);
    ASSERT_EQ(waits.size(), 1u);
    ASSERT_EQ(fetches.size(), 1u);
    const std::vector<NodeId> additions = fetched.users_of(fetches.front());
    ASSERT_EQ(additions.size(), 1u);
    EXPECT_EQ(fetched.place(additions.front()) + 1, fetched.place(stores.front()));
    EXPECT_LT(fetched.place(stores.front()), fetched.place(waits.front()));
  }
}

TEST(FetchingPass, AStoredGradientHasTheIdOfTheLastSum) {
  const Fetched fetched(Width::wide);
  const ValueId accumulator = fetched.graph.find(kAccumulator);
  const NodeId addition = readers_of(fetched.paged, accumulator).front();
  const ValueId sum = fetched.paged.nodes[addition].outputs.front();
  ASSERT_EQ(fetched.paged.values[sum].version_of, accumulator);
  const NodeId wait = transfers_of_value(fetched.graph, kStored, kAccumulator).front();
  EXPECT_EQ(fetched.graph.nodes[wait].outputs, std::vector{sum});
  EXPECT_EQ(fetched.graph.nodes[wait].inputs.back(), accumulator);
}

// With one round, the first addition of a window writes the accumulator, so its bytes need not be there before.
TEST(FetchingPass, AccumulatorsComeInEarlyOnlyIfTheWindowHasSeveralRounds) {
  const auto kernels_before_its_use = [](const Fetched& fetched) {
    const NodeId fetch = transfers_of_value(fetched.graph, kFetch, kAccumulator).front();
    const NodeId use = fetched.users_of(fetch).front();
    const std::vector<NodeId> kernels = nodes_where(
        fetched.graph, Section::micro, [](const Node& node) { return node.op->transfer == Transfer::none && !node.op->view; });
    return std::ranges::count_if(kernels, [&](NodeId kernel) {
      return fetched.place(fetch) < fetched.place(kernel) && fetched.place(kernel) < fetched.place(use);
    });
  };
  for (const Width width : {Width::wide, Width::narrow}) {
    EXPECT_EQ(kernels_before_its_use(Fetched(width, Window::one_round)), 0);
    EXPECT_GT(kernels_before_its_use(Fetched(width, Window::several_rounds)), 0);
  }
}

TEST(FetchingPass, WithOneRoundTheUpdateReadsGradientsInMemory) {
  const auto readers_of_copies = [](const Fetched& fetched) {
    const NodeId store = transfers_of_value(fetched.graph, kStore, kAccumulator).front();
    return readers_of(fetched.graph, fetched.graph.nodes[store].outputs.front(), Section::update);
  };
  const Fetched one(Width::wide, Window::one_round);
  EXPECT_FALSE(readers_of_copies(one).empty());
  for (const NodeId reader : readers_of_copies(one)) {
    for (const ValueId input : one.graph.nodes[reader].inputs) EXPECT_EQ(one.graph.values[input].tier, 0);
    EXPECT_FALSE(one.graph.nodes[reader].pages.valid()) << "nothing is left that it streams";
  }
  EXPECT_TRUE(readers_of_copies(Fetched(Width::wide, Window::several_rounds)).empty());
}

// The largest number of copies of parameters in memory at a time, from the start of a fetch to the last reader.
std::size_t most_copies(const Fetched& fetched) {
  std::vector<int> starts(fetched.graph.order.size() + 1, 0);
  for (const NodeId fetch : nodes_where(fetched.graph, Section::micro, [&](const Node& node) {
         return node.op == &kFetch && fetched.graph.values[node.inputs.front()].role == Role::parameter;
       })) {
    ++starts[fetched.place(fetch)];
    --starts[fetched.place(fetched.users_of(fetch).back()) + 1];
  }
  int present = 0, most = 0;
  for (const int start : starts) most = std::max(most, present += start);
  return static_cast<std::size_t>(most);
}

TEST(FetchingPass, NarrowPassesHoldOneMatrixAndTheNext) {
  EXPECT_EQ(most_copies(Fetched(Width::narrow)), 2u);
  EXPECT_EQ(most_copies(Fetched(Width::wide)), matrices_of_blocks({"h.0", "h.1"}).size()) << "a block and the next";
}

TEST(FetchingPass, NothingMovesIfEverythingRestsHere) {
  const ThreeBlocks blocks;
  EXPECT_EQ(to_text(apply_fetching(blocks.graph(), blocks.units, false, true)), to_text(blocks.graph()));
}

}  // namespace
}  // namespace plimsoll
