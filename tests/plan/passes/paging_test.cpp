// The tier of each value by residency, the room for pages, and where values lie on their tier.
#include "plan/passes/paging.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <stdexcept>

#include "plan/passes/fetching.h"
#include "plan/passes/three_blocks.h"

namespace plimsoll {
namespace {

using Names = std::set<std::string>;

struct Paged {
  Graph before;
  std::vector<Unit> units;
  Residency residency;
  Graph graph;

  explicit Paged(const Residency& residency, const ModelShape& shape = {3, 64, 4, 12, 301})
      : before(build_training_graph(config_for(shape, 4), kTrainAndValidate, 1).graph),
        units(find_units(before)),
        residency(residency),
        graph(apply_paging(before, units, residency)) {
    verify(graph);
  }
  Names on_tier(Role role, int tier) const {
    return names_where(graph, role, [&](const Value& value) { return value.tier == tier; });
  }
  const Value& value(const std::string& name) const { return graph.values[graph.find(name)]; }
  // The node of the update that changes a parameter.
  const Node& update_of(const std::string& parameter) const {
    for (const NodeId reader : readers_of(graph, graph.find(parameter), Section::update)) return graph.nodes[reader];
    throw std::runtime_error("no node updates " + parameter);
  }
};

constexpr ModelShape kLargeTable{2, 64, 2, 9, 9001};
constexpr Residency kState{.pages = kFewPages, .optimizer_state = kBeyond};
constexpr Residency kBlocks{.pages = kFewPages, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond};
constexpr Residency kEverything{
    .pages = kFewPages, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond, .tables = kBeyond};
const std::vector<std::string> kAllBlocks{"h.0", "h.1", "h.2"};

TEST(PagingPass, StateLargerThanADiskBlockLeaves) {
  const Paged paged(kState);
  const Names large =
      names_where(paged.before, Role::optimizer_state, [](const Value& value) { return value.bytes() > kStoredAlignment; });
  ASSERT_TRUE(large.contains(kMatrix + ".m"));
  EXPECT_EQ(paged.on_tier(Role::optimizer_state, 1), large);
  EXPECT_EQ(paged.on_tier(Role::parameter, 1), Names{});
  EXPECT_EQ(paged.on_tier(Role::accumulator, 1), Names{});
}

TEST(PagingPass, ParametersAndAccumulatorsOfTheBlocksLeaveByThemselves) {
  const Paged parameters({.pages = kFewPages, .optimizer_state = kBeyond, .parameters = kBeyond});
  EXPECT_EQ(parameters.on_tier(Role::parameter, 1), matrices_of_blocks(kAllBlocks));
  EXPECT_EQ(parameters.on_tier(Role::accumulator, 1), Names{});
  const Paged accumulators({.pages = kFewPages, .optimizer_state = kBeyond, .accumulators = kBeyond});
  EXPECT_EQ(accumulators.on_tier(Role::parameter, 1), Names{});
  EXPECT_EQ(accumulators.on_tier(Role::accumulator, 1), matrices_of_blocks(kAllBlocks, ".grad"));
}

TEST(PagingPass, KeptBlocksKeepParametersAndAccumulators) {
  Residency residency = kBlocks;
  residency.keep(1);
  const Paged paged(residency);
  const auto moving = [&](int number) { return !stays(residency, number, static_cast<int>(kAllBlocks.size())); };
  std::vector<std::string> others;
  for (int i = 0; i < static_cast<int>(kAllBlocks.size()); ++i) {
    if (moving(i)) others.push_back(fmt::format("h.{}", i));
  }
  ASSERT_EQ(others.size(), 2u);
  EXPECT_EQ(paged.on_tier(Role::parameter, 1), matrices_of_blocks(others));
  EXPECT_EQ(paged.on_tier(Role::accumulator, 1), matrices_of_blocks(others, ".grad"));
  EXPECT_EQ(paged.on_tier(Role::optimizer_state, 1), Paged(kBlocks).on_tier(Role::optimizer_state, 1))
      << "state stays only where nothing else of the blocks moves";
}

TEST(PagingPass, KeptBlocksKeepTheirStateIfNothingElseMoves) {
  Residency residency = kState;
  residency.keep(1);
  const Names all = Paged(kState).on_tier(Role::optimizer_state, 1);
  const Names moved = Paged(residency).on_tier(Role::optimizer_state, 1);
  Names kept;
  std::ranges::set_difference(all, moved, std::inserter(kept, kept.end()));
  Names expected = matrices_of_blocks({"h.2"}, ".m");
  expected.merge(matrices_of_blocks({"h.2"}, ".v"));
  EXPECT_EQ(kept, expected);
}

TEST(PagingPass, TablesLeaveWithTheirAccumulators) {
  const Paged without(kBlocks, kLargeTable), with(kEverything, kLargeTable);
  EXPECT_EQ(without.value("wte.weight").tier, 0);
  EXPECT_EQ(without.value("wte.weight.grad").tier, 0);
  EXPECT_EQ(with.value("wte.weight").tier, 1);
  EXPECT_EQ(with.value("wte.weight.grad").tier, 1);
}

TEST(PagingPass, IdsKeepTheirMeaning) {
  const Paged paged(kEverything, kLargeTable);
  for (std::size_t i = 0; i < paged.before.values.size(); ++i) {
    const Value &now = paged.graph.values[ValueId{i}], &before = paged.before.values[ValueId{i}];
    EXPECT_EQ(now.name, before.name);
    EXPECT_EQ(now.type, before.type);
    EXPECT_EQ(now.role, before.role);
  }
  for (std::size_t i = paged.before.values.size(); i < paged.graph.values.size(); ++i) {
    EXPECT_EQ(paged.graph.values[ValueId{i}].role, Role::pages) << "only room for pages is new";
  }
  EXPECT_EQ(paged.graph.order, paged.before.order);
}

TEST(PagingPass, AVersionRestsWhereItsValueDoes) {
  const Paged paged(kEverything, kLargeTable);
  for (const Value& value : paged.graph.values) {
    if (value.version_of.valid()) EXPECT_EQ(value.tier, paged.graph.values[value.version_of].tier) << value.name.text();
  }
}

TEST(PagingPass, ParametersAreNearestAndStateIsFarthest) {
  const Graph all = Paged(kBlocks).graph;
  const auto bytes_of = [&](Role role) {
    Bytes bytes;
    for (const Value& value : all.values) {
      if (value.persistent() && value.tier == 1 && value.role == role) bytes += align_up(value.bytes(), kStoredAlignment);
    }
    return bytes;
  };
  const Bytes parameters = bytes_of(Role::parameter), blocks = parameters + bytes_of(Role::accumulator);
  ASSERT_LT(parameters, blocks);
  const auto tiers_with = [](Bytes near) {
    Residency residency = kBlocks;
    residency.near = near;
    const Paged paged(residency);
    return std::vector<int>{paged.value(kMatrix).tier, paged.value(kAccumulator).tier, paged.value(kMatrix + ".m").tier};
  };
  EXPECT_EQ(tiers_with(Bytes{}), (std::vector{2, 2, 2}));
  EXPECT_EQ(tiers_with(parameters), (std::vector{1, 2, 2}));
  EXPECT_EQ(tiers_with(blocks), (std::vector{1, 1, 2}));
  EXPECT_EQ(tiers_with(Residency::kAllNear), (std::vector{1, 1, 1}));
}

TEST(PagingPass, TheFirstStateOfAnUpdateIsNearerInEveryUpdate) {
  Residency residency = kState;
  residency.near = stored_layout(Paged(kState).graph).ends[1] - Bytes{1};
  Paged paged(residency);
  EXPECT_EQ(paged.on_tier(Role::optimizer_state, 2).size(), 1u) << "only the last one has no room";
  residency.near = Bytes{stored_layout(Paged(kState).graph).ends[1].n / 2};
  paged = Paged(residency);
  for (const std::string& name : paged.on_tier(Role::optimizer_state, 1)) EXPECT_TRUE(name.ends_with(".m")) << name;
  for (const std::string& name : paged.on_tier(Role::optimizer_state, 2)) EXPECT_TRUE(name.ends_with(".v")) << name;
}

TEST(PagingPass, NothingChangesWithoutPaging) {
  const Paged paged(Residency{});
  EXPECT_EQ(to_text(paged.graph), to_text(paged.before));
}

TEST(PagingPass, UpdatesShareTheRoomForTheirPages) {
  const Paged paged(kState);
  const ValueId room = paged.update_of(kMatrix).pages;
  ASSERT_TRUE(room.valid());
  EXPECT_EQ(room, paged.update_of("h.0.attn.c_attn.weight").pages);
  std::vector<NodeId> streaming;
  std::int64_t slot = 0;
  for (const NodeId id : paged.graph.section_order(Section::update)) {
    if (!paged.graph.nodes[id].pages.valid()) continue;
    streaming.push_back(id);
    slot = std::max(slot, range_elements(paged.graph, paged.graph.nodes[id], page_elements(paged.graph, paged.residency)));
  }
  EXPECT_EQ(paged.graph.values[room].bytes(), slot_bytes(paged.graph, streaming) * (slot * kFewPages.slots));
}

TEST(PagingPass, ReadersOfTablesHaveRoomOfTheirOwn) {
  const Paged paged(kEverything, kLargeTable);
  std::set<ValueId> rooms;
  const std::vector<NodeId> streaming =
      nodes_where(paged.graph, Section::micro, [](const Node& node) { return node.pages.valid(); });
  for (const NodeId id : streaming) rooms.insert(paged.graph.nodes[id].pages);
  EXPECT_GT(streaming.size(), 1u);
  EXPECT_EQ(rooms.size(), streaming.size());
  EXPECT_FALSE(rooms.contains(paged.update_of("wte.weight").pages));
}

TEST(PageElements, AreNoMoreThanTheLargestValueBeyond) {
  constexpr Residency kLargePages{.pages = {1 << 20, 4}, .optimizer_state = kBeyond};
  const Paged paged(kLargePages);
  std::int64_t largest = 0;
  for (const Value& value : paged.graph.values) {
    if (value.persistent() && value.tier != 0) largest = std::max(largest, value.type.shape.elements());
  }
  const std::int64_t page = page_elements(paged.graph, kLargePages);
  EXPECT_GE(page, largest);
  EXPECT_LT(page, largest + kStoredAlignment.n / size_of(DType::f32)) << "rounded to a disk block of fp32";
}

TEST(PageElements, DivideTheRangesOrAreDividedByThem) {
  for (const std::int64_t asked : {kPageStep, 3 * kPageStep, kLargePage}) {
    Residency residency = kEverything;
    residency.pages.elements = asked;
    const Paged paged(residency, kLargeTable);
    const std::int64_t page = page_elements(paged.graph, residency);
    EXPECT_EQ(page_bytes(page, DType::f32).n % kStoredAlignment.n, 0) << "whole blocks of a disk";
    for (const NodeId id : nodes_where(paged.graph, Section::micro, [](const Node& node) { return node.pages.valid(); })) {
      const std::int64_t step = ranges_of(paged.graph, paged.graph.nodes[id]).step;
      EXPECT_TRUE(page % step == 0 || step % page == 0) << page << " and " << step;
    }
  }
}

TEST(RangeElements, AreAPageOrAStepOrTheWholeValue) {
  const Paged paged(kEverything, kLargeTable);
  for (const Node& node : paged.graph.nodes) {
    if (!node.pages.valid()) continue;
    const RangeRule rule = ranges_of(paged.graph, node);
    const std::int64_t elements = paged.graph.values[node.inputs[rule.inputs.front()]].type.shape.elements();
    const std::int64_t range = range_elements(paged.graph, node, kPageStep);
    EXPECT_GE(range, std::min(elements, kPageStep)) << node.line.text();
    EXPECT_LE(range, std::max({rule.step, kPageStep})) << node.line.text();
    const std::int64_t of_a_large_page = range_elements(paged.graph, node, elements * 2);
    EXPECT_GE(of_a_large_page, elements);
    EXPECT_LT(of_a_large_page, elements + kStoredAlignment.n) << "a range is no larger than the value";
  }
}

TEST(Stays, KeptBlocksAreSpreadEvenly) {
  constexpr int kBlockCount = 12;
  for (int kept = 0; kept <= kBlockCount; ++kept) {
    const Residency residency{.pages = kFewPages, .parameters = {.beyond = true, .kept = kept}};
    std::vector<int> staying;
    for (int block = 0; block < kBlockCount; ++block) {
      if (stays(residency, block, kBlockCount)) staying.push_back(block);
    }
    ASSERT_EQ(staying.size(), static_cast<std::size_t>(kept));
    for (std::size_t i = 1; i < staying.size(); ++i) {
      const int gap = staying[i] - staying[i - 1];
      EXPECT_GE(gap, kBlockCount / kept);
      EXPECT_LE(gap, ceil_div(kBlockCount, kept));
    }
  }
}

TEST(StreamedInputs, AreThoseThatRestElsewhere) {
  const auto of_update = [](const Residency& residency) {
    const Paged paged(residency);
    const Node& node = paged.update_of(kMatrix);
    std::map<std::string, bool> changes;
    for (const StreamedInput& input : streamed_inputs(paged.graph, node)) {
      changes[paged.graph.values[origin_of(paged.graph, node.inputs[input.input])].name.text()] = input.changes;
      EXPECT_FALSE(input.begins) << "an update needs the bytes";
    }
    return changes;
  };
  using Changes = std::map<std::string, bool>;
  const Changes state{{kMatrix + ".m", true}, {kMatrix + ".v", true}};
  EXPECT_EQ(of_update(Residency{}), Changes{});
  EXPECT_EQ(of_update(kState), state);
  Changes all = state;
  all[kMatrix] = true;
  all[kAccumulator] = false;
  EXPECT_EQ(of_update(kBlocks), all);
}

TEST(StreamedInputs, TheFirstAdditionOfAWindowWritesWithoutFetching) {
  const Paged paged(kEverything, kLargeTable);
  const ValueId gradient = paged.graph.find("wte.weight.grad");
  const std::vector<NodeId> adding = readers_of(paged.graph, gradient);
  ASSERT_EQ(adding.size(), 1u);
  const Node& node = paged.graph.nodes[adding.front()];
  bool found = false;
  for (const StreamedInput& input : streamed_inputs(paged.graph, node)) {
    const bool is_gradient = node.inputs[input.input] == gradient;
    EXPECT_EQ(input.begins, is_gradient);
    EXPECT_EQ(input.changes, is_gradient);
    found = found || is_gradient;
  }
  EXPECT_TRUE(found);
}

TEST(StreamedInputs, TransfersStreamNothing) {
  const Paged paged(kBlocks);
  const Graph fetched = apply_fetching(paged.graph, paged.units, /*narrow=*/false, /*adds=*/true);
  const std::vector<NodeId> transfers =
      nodes_where(fetched, Section::micro, [](const Node& node) { return node.op->transfer != Transfer::none; });
  ASSERT_FALSE(transfers.empty());
  for (const NodeId id : transfers) EXPECT_TRUE(streamed_inputs(fetched, fetched.nodes[id]).empty());
}

TEST(SlotBytes, AreTheElementsOfAllStreamedValues) {
  const auto of_update = [](const Residency& residency) {
    const Paged paged(residency);
    const std::vector<NodeId> nodes = readers_of(paged.graph, paged.graph.find(kMatrix), Section::update);
    return slot_bytes(paged.graph, nodes).n / size_of(DType::f32);
  };
  EXPECT_EQ(of_update(Residency{}), 0);
  EXPECT_EQ(of_update(kState), 2) << "two moments";
  EXPECT_EQ(of_update(kBlocks), 4) << "two moments, parameter and gradient";
}

TEST(UnitsOfValues, NameTheBlockOfAMatrixAndOfItsAccumulator) {
  const ThreeBlocks blocks;
  const PerValue<int> units = units_of_values(blocks.graph(), blocks.units);
  const auto unit = [&](const std::string& name) { return units[blocks.graph().find(name)]; };
  EXPECT_EQ(unit("h.0.mlp.c_fc.weight"), 0);
  EXPECT_EQ(unit("h.2.attn.c_attn.weight"), 2);
  EXPECT_EQ(unit("h.2.attn.c_attn.weight.grad"), 2);
  EXPECT_EQ(unit("h.2.attn.c_attn.bias"), -1) << "a small part of its block";
  EXPECT_EQ(unit("wte.weight"), -1) << "read outside the blocks, twice";
  EXPECT_EQ(unit(kMatrix + ".m"), -1) << "only parameters and accumulators count";
}

TEST(UpdateInputs, PairAParameterWithWhatItsUpdateReads) {
  const ThreeBlocks blocks;
  std::map<std::string, Names> accumulators, states;
  const auto name_of = [&](ValueId value) { return blocks.graph().values[value].name.text(); };
  for (const auto& [changed, read] : update_inputs(blocks.graph(), Role::accumulator)) {
    accumulators[name_of(changed)].insert(name_of(read));
  }
  for (const auto& [changed, read] : update_inputs(blocks.graph(), Role::optimizer_state)) {
    states[name_of(changed)].insert(name_of(read));
  }
  EXPECT_EQ(accumulators[kMatrix], Names{kAccumulator});
  EXPECT_EQ(states[kMatrix], (Names{kMatrix + ".m", kMatrix + ".v"}));
}

TEST(StoredLayout, ValuesLieAlignedOneAfterTheOtherOnTheirTier) {
  Residency residency = kBlocks;
  residency.near = Bytes{stored_layout(Paged(kBlocks).graph).ends[1].n / 2};
  const Paged paged(residency);
  const StoredLayout layout = stored_layout(paged.graph);
  std::array<Bytes, 3> ends{};
  for (std::size_t i = 0; i < paged.graph.values.size(); ++i) {
    const Value& value = paged.graph.values[ValueId{i}];
    const Bytes offset = layout.offsets[ValueId{i}];
    if (!value.persistent() || value.tier == 0) {
      EXPECT_EQ(offset, Bytes{-1}) << value.name.text();
      continue;
    }
    EXPECT_EQ(offset.n % kStoredAlignment.n, 0) << value.name.text();
    EXPECT_GE(offset, ends[value.tier]) << "it begins where the one before it ends, or later";
    ends[value.tier] = offset + value.bytes();
  }
  for (const std::size_t tier : {1, 2}) {
    EXPECT_GT(ends[tier], Bytes{});
    EXPECT_EQ(layout.ends[tier], align_up(ends[tier], kStoredAlignment));
  }
  EXPECT_EQ(layout.total(), layout.ends[1] + layout.ends[2]);
}

TEST(HasRoom, ComparesEachArenaWithItsTier) {
  constexpr Bytes kNear{1000}, kFar{5000}, kOne{1};
  StoredLayout stored;
  stored.ends = {Bytes{}, kNear, kFar};
  const Residency all{.pages = kFewPages};
  EXPECT_TRUE(has_room(stored, all, {kNear, kFar}));
  EXPECT_FALSE(has_room(stored, all, {kNear - kOne, kFar}));
  EXPECT_FALSE(has_room(stored, all, {kNear, kFar - kOne}));
  EXPECT_FALSE(has_room(stored, all, {kNear})) << "a tier that is missing has no room";
  EXPECT_TRUE(has_room(StoredLayout{}, all, {}));
  Residency less = all;
  less.near = kNear - kOne;
  EXPECT_FALSE(has_room(stored, less, {kNear, kFar})) << "the residency bounds the near tier as well";
}

TEST(PagingReserve, IsPaidByTheProcessThatMovesPages) {
  const Paged paged(kState), resident{Residency{}};
  const auto pays = [](const Paged& model, const Machine& machine, std::size_t tier) {
    return total(paging_reserve(model.graph, model.residency, machine, tier)) > Bytes{};
  };
  EXPECT_TRUE(pays(paged, round_machine(), 0));
  EXPECT_FALSE(pays(paged, round_machine(), 1));
  EXPECT_FALSE(pays(paged, round_device(), 0));
  EXPECT_TRUE(pays(paged, round_device(), 1));
  EXPECT_TRUE(pays(paged, round_gpu(), 0)) << "page tables of pinned memory";
  EXPECT_FALSE(pays(resident, round_machine(), 0));
  EXPECT_FALSE(pays(resident, round_gpu(), 0));
}

}  // namespace
}  // namespace plimsoll
