// Inputs of the first blocks on another tier between the passes: which ones, when they go and come, where they rest.
#include "plan/passes/offload.h"

#include <gtest/gtest.h>

#include "plan/passes/grouping.h"
#include "plan/passes/paging.h"
#include "plan/passes/three_blocks.h"

namespace plimsoll {
namespace {

std::vector<ValueId> homes_of(const Graph& graph) {
  std::vector<ValueId> homes;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (value.persistent() && value.role == Role::activation) homes.push_back(ValueId{i});
  }
  return homes;
}

// One value on its way out and back.
struct Trip {
  ValueId value, copy;  // copy: the one that the backward pass reads
  NodeId store, stored, fetch, fetched;
};

struct Offloaded {
  ThreeBlocks blocks;
  Graph graph;
  PerNode<std::size_t> places;

  explicit Offloaded(std::size_t count, Bytes near = Residency::kAllNear)
      : graph(apply_offload(blocks.graph(), blocks.units, count, near)), places(places_of(graph)) {
    verify(graph);
  }
  std::size_t place(NodeId node) const { return places[node]; }
  NodeId only_transfer(const OpDef& op, const std::string& home) const {
    const std::vector<NodeId> nodes = transfers_of_value(graph, op, home);
    EXPECT_EQ(nodes.size(), 1u) << op.name << " " << home;
    return nodes.front();
  }
  // In the order in which the values leave.
  std::vector<Trip> trips() const {
    std::vector<Trip> trips;
    for (const ValueId home : homes_of(graph)) {
      const std::string name = graph.values[home].name.text();
      Trip trip{.store = only_transfer(kStore, name),
                .stored = only_transfer(kStored, name),
                .fetch = only_transfer(kFetch, name),
                .fetched = only_transfer(kFetched, name)};
      trip.value = graph.nodes[trip.store].inputs.front();
      trip.copy = graph.nodes[trip.fetched].outputs.front();
      EXPECT_EQ(graph.values[trip.value].name.text() + ".away", name);
      trips.push_back(trip);
    }
    std::ranges::sort(trips, {}, [&](const Trip& trip) { return place(trip.store); });
    return trips;
  }
};

bool is_transfer(const Node& node) { return node.op->transfer != Transfer::none; }

TEST(OffloadPass, InputsOfTheFirstBlocksLeave) {
  const Offloaded offloaded(2);
  const std::vector<Trip> trips = offloaded.trips();
  ASSERT_EQ(trips.size(), 2u);
  const auto is_read_by = [&](const Trip& trip, const char* block) {
    const std::vector<NodeId> kernels = kernels_of_block(offloaded.blocks.graph(), block, false);
    const std::vector<NodeId> readers = readers_of(offloaded.blocks.graph(), trip.value);
    return std::ranges::find(readers, kernels.front()) != readers.end();
  };
  EXPECT_TRUE(is_read_by(trips.front(), "h.0"));
  EXPECT_TRUE(is_read_by(trips.back(), "h.1"));
}

TEST(OffloadPass, AValueLeavesAfterItsForwardReadersAndIsBackBeforeItsBackwardReaders) {
  const Offloaded offloaded(2);
  for (const Trip& trip : offloaded.trips()) {
    for (const NodeId reader : readers_of(offloaded.graph, trip.value)) {
      const Node& node = offloaded.graph.nodes[reader];
      EXPECT_FALSE(node.backward) << "backward nodes read the copy";
      if (!is_transfer(node)) EXPECT_LT(offloaded.place(reader), offloaded.place(trip.store));
    }
    const std::vector<NodeId> readers = readers_of(offloaded.graph, trip.copy);
    ASSERT_FALSE(readers.empty());
    for (const NodeId reader : readers) {
      EXPECT_TRUE(offloaded.graph.nodes[reader].backward);
      EXPECT_GT(offloaded.place(reader), offloaded.place(trip.fetched));
    }
    EXPECT_LT(offloaded.place(trip.store), offloaded.place(trip.stored));
    EXPECT_LT(offloaded.place(trip.stored), offloaded.place(trip.fetch));
    EXPECT_LT(offloaded.place(trip.fetch), offloaded.place(trip.fetched));
  }
}

// Backward readers of the value in the original graph are the readers of the copy, and no others are.
TEST(OffloadPass, ReadersStayTheSame) {
  const Offloaded offloaded(3);
  for (const Trip& trip : offloaded.trips()) {
    const std::vector<NodeId> before = nodes_where(offloaded.blocks.graph(), Section::micro, [&](const Node& node) {
      return node.backward && std::ranges::count(node.inputs, trip.value) > 0;
    });
    EXPECT_EQ(readers_of(offloaded.graph, trip.copy), before);
  }
}

TEST(OffloadPass, ATransferHasTheTimeUntilTheNextOne) {
  const Offloaded offloaded(3);
  const std::vector<Trip> trips = offloaded.trips();
  ASSERT_EQ(trips.size(), 3u);
  for (std::size_t i = 0; i + 1 < trips.size(); ++i) {
    const Trip &earlier = trips[i], &later = trips[i + 1];
    EXPECT_GT(offloaded.place(earlier.stored), offloaded.place(later.store)) << "a wait ends when the next store has begun";
    const NodeId first_reader = readers_of(offloaded.graph, later.copy).front();
    EXPECT_GT(offloaded.place(earlier.fetch), offloaded.place(later.fetched)) << "one fetch after the other, in reverse";
    EXPECT_LT(offloaded.place(earlier.fetch), offloaded.place(first_reader)) << "while the block before it runs";
  }
}

TEST(OffloadPass, ABlockThatSeveralValuesCrossIntoKeepsThem) {
  const ThreeBlocks blocks;
  const std::vector<Trip> trips = Offloaded(2).trips();
  ASSERT_EQ(trips.size(), 2u);
  Graph graph = blocks.graph();
  for (const NodeId id : kernels_of_block(graph, "h.1", false)) {
    std::vector<ValueId>& inputs = graph.nodes[id].inputs;
    const auto residual = std::ranges::find(inputs, trips.back().value);
    if (inputs.size() == 2 && residual != inputs.end()) *residual = trips.front().value;
  }
  verify(graph);
  const Graph offloaded = apply_offload(graph, blocks.units, 2, Residency::kAllNear);
  ASSERT_EQ(homes_of(offloaded).size(), 1u);
  EXPECT_EQ(offloaded.values[homes_of(offloaded).front()].name.text(), graph.values[trips.front().value].name.text() + ".away");
}

TEST(OffloadPass, ValuesRestOnTheNearTierWhileItHasRoom) {
  const Bytes each = align_up(Offloaded(1).graph.values[homes_of(Offloaded(1).graph).front()].bytes(), kStoredAlignment);
  const auto tiers = [](const Offloaded& offloaded) {
    std::vector<int> tiers;
    for (const ValueId home : homes_of(offloaded.graph)) tiers.push_back(offloaded.graph.values[home].tier);
    return tiers;
  };
  EXPECT_EQ(tiers(Offloaded(2)), (std::vector{1, 1}));
  EXPECT_EQ(tiers(Offloaded(2, each)), (std::vector{1, 2}));
  EXPECT_EQ(tiers(Offloaded(2, each - Bytes{1})), (std::vector{2, 2}));
}

TEST(OffloadPass, RoomOfOtherValuesIsTaken) {
  const ThreeBlocks blocks;
  const Graph paged = apply_paging(blocks.graph(), blocks.units, {.pages = kFewPages, .optimizer_state = kBeyond});
  const Bytes taken = stored_layout(paged).ends[1];
  ASSERT_GT(taken, Bytes{});
  const auto tier_with = [&](Bytes near) {
    const Graph graph = apply_offload(paged, blocks.units, 1, near);
    return int{graph.values[homes_of(graph).front()].tier};
  };
  EXPECT_EQ(tier_with(taken), 2);
  EXPECT_EQ(tier_with(taken + kMiB), 1);
}

TEST(OffloadPass, EachMicroBatchOfAGroupHasItsOwn) {
  const ThreeBlocks blocks;
  const Graph grouped = apply_grouping(blocks.graph(), blocks.units, 2, /*narrow=*/false);
  const Graph graph = apply_offload(grouped, blocks.units, 3, Residency::kAllNear);
  verify(graph);
  EXPECT_EQ(homes_of(graph).size(), 6u);
}

TEST(OffloadPass, NoMoreThanAllBlocksTakePart) {
  EXPECT_EQ(to_text(Offloaded(0).graph), to_text(ThreeBlocks().graph()));
  EXPECT_EQ(to_text(Offloaded(99).graph), to_text(Offloaded(3).graph));
}

}  // namespace
}  // namespace plimsoll
