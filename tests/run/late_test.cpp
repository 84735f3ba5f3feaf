// Transfers that begin later than their pass would have them: the same bits, exactly the planned bytes, and no other order of the
// lanes.

#include "plan/passes/late.h"

#include "plan/layout/apart.h"
#include "run/session.h"

namespace plimsoll {
namespace {

constexpr int kUpdates = 3;
const ModelShape kShape{3, 48, 3, 11, 301};

Config config_with_disk() {
  Config config = config_for(kShape, 4, 0.1);
  config.memory.disk = DiskBudget{std::filesystem::temp_directory_path(), kGiB};
  return config;
}

std::vector<NodeId> fetches(const Graph& graph) {
  std::vector<NodeId> all;
  for (const NodeId id : graph.order) {
    if (graph.nodes[id].op->transfer == Transfer::fetch) all.push_back(id);
  }
  return all;
}

bool possible(const Plan& plan, NodeId fetch, NodeId after) { return is_possible(plan.graph, {fetch, after}); }

// Every transfer that can begin later does so, each by some steps.
Plan as_late_as_can_be(const Plan& plan, const Config& config, const DataFacts& facts) {
  const Graph graph = build_training_graph(config, facts, plan.decisions.micro_batch).graph;
  PlanDecisions decisions = plan.decisions;
  Graph moved = plan.graph;
  std::mt19937 random(3);
  for (const NodeId fetch : fetches(plan.graph)) {
    const auto at = std::find(moved.order.begin(), moved.order.end(), fetch);
    const auto steps = static_cast<std::ptrdiff_t>(1 + random() % 30);
    if (moved.order.end() - at <= steps) continue;
    const LateFetch late{fetch, at[steps]};
    if (!is_possible(moved, late)) continue;
    moved = *apply_late(std::move(moved), {late});
    decisions.late.push_back(late);
  }
  OpCatalogue catalogue = round_catalogue();
  return build_plan(graph, find_blocks(graph), decisions, plan_request(config), round_machine(), catalogue, nullptr);
}

TEST(Late, SameBitsAndExactBytes) {
  const TokenData data(kShape.vocab, 400, 90);
  const Config config = config_with_disk();
  const Paging wide{1024, 4, true, true}, narrow{1024, 3, true, true, 0, true, true},
      activations{1024, 4, true, true, 0, false, false, 2};
  struct Case {
    const char* name;
    std::int64_t micro, group;
    Paging paging;
    std::size_t fewest;
  };
  for (const Case& each :
       {Case{"wide", 1, 1, wide, 5}, Case{"wide, larger micro-batches", 4, 1, wide, 5}, Case{"four together", 1, 4, wide, 5},
        Case{"two together", 1, 2, wide, 5}, Case{"narrow", 1, 1, narrow, 1},
        Case{"narrow, larger micro-batches", 4, 1, narrow, 1}, Case{"activations", 1, 1, activations, 5}}) {
    SCOPED_TRACE(each.name);
    const DataFacts facts = data.files.facts();
    const Plan resident = plan_with(config, each.micro, {BlockMode::recompute}, 1, facts);
    const Outcome expected = Session(config, resident, data.files).train(kUpdates);
    const Plan early = plan_with(config, each.micro, {BlockMode::recompute}, 1, facts, each.paging, each.group);
    const Plan plan = as_late_as_can_be(early, config, facts);
    EXPECT_GE(plan.decisions.late.size(), each.fewest);
    EXPECT_LE(plan.live, early.live);
    EXPECT_EQ(fetches(plan.graph), fetches(early.graph)) << "the lanes have another order";
    verify(plan.graph);
    EXPECT_EQ(Session(config, plan, data.files).train(kUpdates), expected);
    Session session(config, plan, data.files, Watch::audit);
    session.run_all_phases(data.files);
    EXPECT_EQ(difference(plan, session.audit().phases()), "");
  }
}

TEST(Late, WhatIsWaitedForCannotBeginBehindTheWait) {
  const TokenData data(kShape.vocab, 400, 0);
  const Config config = config_with_disk();
  const Plan plan = plan_with(config, 1, {BlockMode::recompute}, 1, data.files.facts(), {1024, 4, true, true});
  const NodeId fetch = fetches(plan.graph).front();
  const ValueId copy = plan.graph.nodes[fetch].outputs[0];
  const auto wait = std::find_if(plan.graph.order.begin(), plan.graph.order.end(), [&](NodeId id) {
    const std::vector<ValueId>& inputs = plan.graph.nodes[id].inputs;
    return std::find(inputs.begin(), inputs.end(), copy) != inputs.end();
  });
  ASSERT_NE(wait, plan.graph.order.end());
  EXPECT_FALSE(possible(plan, fetch, *wait));
  EXPECT_FALSE(possible(plan, fetch, plan.graph.order.back()));
  EXPECT_FALSE(possible(plan, fetch, fetch));
  EXPECT_FALSE(possible(plan, *wait, plan.graph.order.back()));
  EXPECT_FALSE(possible(plan, NodeId{plan.graph.nodes.size()}, *wait));
}

// Of two buffers that need not meet: the transfer moves behind the other one's last step, and what was refused is not said again.
TEST(Late, ALayoutsConflictIsKeptApart) {
  const TokenData data(kShape.vocab, 400, 0);
  const Config config = config_with_disk();
  const Plan plan = plan_with(config, 1, {BlockMode::recompute}, 1, data.files.facts(), {1024, 4, true, true});
  const Simulation simulation{plan.graph, plan.timeline, plan.kernels, plan.lifetimes};
  std::vector<std::size_t> all(plan.lifetimes.buffers.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<LateFetch> said;
  for (int turn = 0; turn < 5; ++turn) {
    const std::optional<LateFetch> late = keep_apart(simulation, all, said);
    ASSERT_TRUE(late);
    EXPECT_EQ(std::count(said.begin(), said.end(), *late), 0);
    EXPECT_TRUE(possible(plan, late->fetch, late->after));
    said.push_back(*late);
  }
  EXPECT_FALSE(keep_apart(simulation, {}, {}));
}

}  // namespace
}  // namespace plimsoll
