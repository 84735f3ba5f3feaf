// A device with a host and a disk as further tiers, on one computer: the same bits for every residency, and exactly the planned
// bytes on each of the three.

#include <algorithm>
#include <map>

#include "run/session.h"

namespace plimsoll {
namespace {

constexpr int kUpdates = 2;
const ModelShape kDeep{4, 128, 4, 11, 9001};

Plan three_tiers(const Config& config, std::int64_t micro, BlockMode mode, const Residency& residency, const TokenData& data,
                 std::int64_t group = 1) {
  return plan_with(config, micro, {mode}, 1, data.facts(), residency, group, round_device());
}

Residency everything(Bytes near) {
  Residency residency{
      .pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond, .tables = kBeyond};
  residency.near = near;
  return residency;
}

void audit(const Config& config, const Plan& plan, const TokenData& data) {
  Session session(config, plan, data.files, Watch::audit);
  session.run_all_phases(data.files);
  EXPECT_EQ(difference(plan, session.audit().phases()), "");
  for (std::size_t tier = 1; tier < plan.tiers.size(); ++tier) {
    SCOPED_TRACE(plan.tiers[tier].name);
    const TierStore* store = session.stores().at(tier);
    ASSERT_EQ(store != nullptr, plan.stored[tier].n > 0);
    if (store == nullptr) continue;
    EXPECT_EQ(store->height(), plan.stored[tier]);
    EXPECT_EQ(store->written(), plan.stored[tier]);
  }
}

Bytes all_of(const Config& config, const TokenData& data) {
  return three_tiers(config, 1, BlockMode::keep, everything(Residency::kAllNear), data).stored[1];
}

// The bits of a plan that keeps everything in one tier, and on each tier the planned bytes.
void expect_same(const Config& config, const Plan& plan, const TokenData& data, const Outcome& resident) {
  verify(lower(plan), plan.graph);
  EXPECT_EQ(Session(config, plan, data.files).train(kUpdates), resident);
  audit(config, plan, data);
}

TEST(Tiers, SameBitsAndExactBytesOnEachHoweverTheyShare) {
  const TokenData data(kDeep.vocab, 400, 90);
  const Config config = config_for(kDeep, 4);
  const Bytes all = all_of(config, data);
  for (const std::int64_t micro : {4, 1}) {
    const Outcome resident =
        Session(config, plan_with(config, micro, {BlockMode::keep}, 1, data.facts()), data.files).train(kUpdates);
    for (const std::int64_t quarter : {0, 1, 3, 4}) {
      SCOPED_TRACE(quarter);
      const BlockMode mode = quarter % 2 == 0 ? BlockMode::keep : BlockMode::recompute;
      const Plan plan = three_tiers(config, micro, mode, everything(Bytes{all.n * quarter / 4}), data);
      EXPECT_EQ(plan.stored[1] + plan.stored[2], all);
      EXPECT_LE(plan.stored[1].n, all.n * quarter / 4);
      expect_same(config, plan, data, resident);
    }
  }
}

TEST(Tiers, GroupsAndActivationsGoWhereThereIsRoom) {
  const TokenData data(kDeep.vocab, 400, 90);
  const Config config = config_for(kDeep, 4);
  const Bytes all = all_of(config, data);
  const Outcome resident = Session(config, plan_with(config, 2, {BlockMode::keep}, 1, data.facts()), data.files).train(kUpdates);
  for (const Bytes near : {all, all + kKiB * 8, all + kMiB}) {
    for (const std::int64_t group : {1, 2}) {
      Residency residency = everything(near);
      residency.inputs = 3;
      const Plan plan = three_tiers(config, 2, BlockMode::recompute, residency, data, group);
      EXPECT_EQ(plan.stored[2].n == 0, near == all + kMiB);
      expect_same(config, plan, data, resident);
    }
  }
}

TEST(Tiers, WhatMovesMostOftenIsNearest) {
  const TokenData data(kDeep.vocab, 400, 90);
  const Config config = config_for(kDeep, 4);
  const Bytes all = all_of(config, data);
  const auto tiers_of = [&](Bytes near) {
    const Plan plan = three_tiers(config, 1, BlockMode::keep, everything(near), data);
    std::map<Role, std::array<int, 3>> count;  // by tier
    for (const Value& value : plan.graph.values) {
      if (value.persistent() && value.tier > 0) ++count[value.role][value.tier];
    }
    return count;
  };
  auto half = tiers_of(Bytes{all.n / 2});
  EXPECT_EQ(half[Role::parameter][2], 0);
  EXPECT_EQ(half[Role::accumulator][2], 0);
  EXPECT_GT(half[Role::optimizer_state][2], 0);
  EXPECT_GT(tiers_of(Bytes{all.n / 8})[Role::parameter][2], 0);
}

// Room for one of the two moments: an update has one of each pair on either link.
TEST(Tiers, UpdatesKeepBothLinksBusy) {
  const TokenData data(kDeep.vocab, 400, 90);
  const Config config = config_for(kDeep, 4);
  const Plan plan = three_tiers(config, 1, BlockMode::keep, everything(Bytes{all_of(config, data).n * 3 / 4}), data);
  int near = 0, far = 0;
  for (const Value& value : plan.graph.values) {
    if (!value.persistent() || value.role != Role::optimizer_state || value.bytes() < kKiB * 16) continue;
    const bool first = value.name.text().ends_with(".m");
    EXPECT_EQ(value.tier, first ? 1 : 2) << value.name.text();
    ++(first ? near : far);
  }
  EXPECT_EQ(near, far);
  EXPECT_GT(near, 0);
}

// The seconds of a plan follow the given rates of the links.
TEST(Tiers, TheFarLinkCostsWhatPassesIt) {
  const TokenData data(kDeep.vocab, 400, 90);
  const Config config = config_for(kDeep, 4);
  const Bytes all = all_of(config, data);
  double before = 1e9;
  for (const std::int64_t quarter : {0, 1, 2, 3, 4}) {
    const Plan plan = three_tiers(config, 1, BlockMode::keep, everything(Bytes{all.n * quarter / 4}), data);
    EXPECT_LE(plan.update_seconds, before);
    EXPECT_EQ(plan.lanes.in[1] > 0, plan.stored[2].n > 0);
    EXPECT_GT(plan.lanes.in[0], 0);
    before = plan.update_seconds;
  }
}

// The host's budget holds its process and the values that rest there. The disk takes the rest.
TEST(Tiers, BudgetsHoldOnEach) {
  Config config = config_for(kDeep, 4);
  const auto space_of = [&](Bytes host, Bytes disk, OpCatalogue& catalogue) {
    PlanRequest request = plan_request(config);
    request.beyond = {host, disk};
    return PlanSpace(source_for(config), request, round_device(), catalogue);
  };
  OpCatalogue catalogue = round_catalogue();
  Bytes floor;
  std::array<bool, 2> used{};
  for (const Bytes host : {kMiB * 64, kMiB * 36, kGiB}) {
    PlanSpace space = space_of(host, kGiB, catalogue);
    floor = space.floor();
    const Plan plan = std::get<Plan>(space.best({floor, host, kGiB}));
    EXPECT_LE(plan.process, floor);
    EXPECT_LE(plan.host, host);
    EXPECT_EQ(plan.host, plan.stored[1] + total(plan.host_reserve));
    EXPECT_GT(plan.stored[1] + plan.stored[2], Bytes{0});
    used[plan.stored[2].n > 0 ? 1 : 0] = true;
  }
  EXPECT_TRUE(used[0] && used[1]) << "with and without the disk";
  EXPECT_THROW(space_of(kMiB, kGiB, catalogue), Error) << "not even the process has room on the host";
}

}  // namespace
}  // namespace plimsoll
