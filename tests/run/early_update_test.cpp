// With one micro-step a window and no clipping, each parameter is updated within the backward pass: the same bits as updates at
// the end, fewer bytes, and the audit agrees.

#include <set>

#include "run/session.h"

namespace plimsoll {
namespace {

constexpr int kUpdates = 3;
const ModelShape kShape{4, 48, 3, 11, 301};
constexpr double kNeverClips = 1e30;

Config config_with(double clip, OptimizerKind kind = OptimizerKind::adamw) {
  Config config = config_for(kShape, 4, 0.1);
  config.train.gradient_clip = clip;
  config.train.micro_batch = 4;
  config.train.accumulation = 1;
  config.optimizer.kind = kind;
  if (kind == OptimizerKind::sgd) config.optimizer.momentum = 0.9;
  return config;
}

void audit(const Config& config, const Plan& plan, const TokenData& data) {
  Session session(config, plan, data.files, Watch::audit);
  session.run_all_phases(data.files);
  EXPECT_EQ(difference(plan, session.audit().phases()), "");
}

TEST(EarlyUpdate, GivesTheBitsOfUpdatesAtTheEndInFewerBytes) {
  const TokenData data(kShape.vocab, 400, 90);
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    const Config late = config_with(kNeverClips, kind), early = config_with(0, kind);
    const std::vector<BlockChoice> recompute{BlockMode::recompute};
    const Plan late_plan = plan_with(late, 4, recompute, 1, data.facts());
    EXPECT_FALSE(late_plan.timeline.early_updates);
    const Outcome at_the_end = Session(late, late_plan, data.files).train(kUpdates);
    for (const BlockMode mode : {BlockMode::keep, BlockMode::cheap, BlockMode::recompute, BlockMode::pieces}) {
      for (const Residency& residency : {Residency{}, Residency{.pages = {1024, 2}, .optimizer_state = kBeyond},
                                         Residency{.pages = {3072, 3}, .optimizer_state = kBeyond},
                                         Residency{.pages = {1 << 20, 4}, .optimizer_state = kBeyond}}) {
        SCOPED_TRACE(residency.pages.elements);
        const Plan plan = plan_with(early, 4, {mode}, 1, data.facts(), residency);
        EXPECT_TRUE(plan.timeline.early_updates);
        EXPECT_EQ(Session(early, plan, data.files).train(kUpdates), at_the_end);
        audit(early, plan, data);
        if (mode == BlockMode::recompute && !residency.active()) EXPECT_LT(plan.arena, late_plan.arena);
      }
    }
  }
}

TEST(EarlyUpdate, WaitsForTheNormWhereItClips) {
  const Plan plan = plan_with(config_with(1), 4, {BlockMode::keep}, 1);
  EXPECT_FALSE(plan.timeline.early_updates);
  for (int step = plan.timeline.micro.begin; step < plan.timeline.micro.end; ++step) {
    const Step& what = plan.timeline.steps[static_cast<std::size_t>(step)];
    if (what.section == Section::update) EXPECT_EQ(plan.graph.nodes[what.node].op->name, "sum_of_squares");
  }
}

TEST(EarlyUpdate, WaitsForTheWholeWindow) {
  Config config = config_with(0);
  const Plan plan = plan_with(config, 2, {BlockMode::keep}, 1);
  EXPECT_FALSE(plan.timeline.early_updates);
  for (int step = plan.timeline.micro.begin; step < plan.timeline.micro.end; ++step) {
    EXPECT_EQ(plan.timeline.steps[static_cast<std::size_t>(step)].section, Section::micro);
  }
}

TEST(EarlyUpdate, EveryBudgetFromALowerFloor) {
  const TokenData data(kShape.vocab, 400, 90);
  const Config late = config_with(kNeverClips);
  Planner with(config_with(0), data.facts()), without(late, data.facts());
  EXPECT_LT(with.space.floor(), without.space.floor());
  EXPECT_LE(with.space.floor_bound(), with.space.floor());
  std::set<std::string> parameters;
  for (int i = 0; i < 10; ++i) {
    const Plan plan = with.plan(Bytes{with.space.floor().n + (with.space.ceiling().n - with.space.floor().n) * i / 9});
    audit(config_with(0), plan, data);
    parameters.insert(Session(config_with(0), plan, data.files).train(2).parameters);
  }
  EXPECT_EQ(parameters.size(), 1u);
}

}  // namespace
}  // namespace plimsoll
