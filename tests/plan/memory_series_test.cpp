// The timeline of a plan beside its phases and its values: equal to the byte, however few the points.
#include "plan/memory_series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/small_models.h"
#include "prepare/plan_json.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Plans with values in memory, on a host and on a disk, with one round and with several.
std::vector<Plan> plans() {
  std::vector<Plan> all;
  all.push_back(plan_with(config_for(kShapes[0], 4), 2, {BlockMode::recompute}, 1));
  all.push_back(plan_with(config_for(kShapes[1], 4), 4, {BlockMode::keep}, 2));
  const Config deep = config_for({6, 32, 4, 16, 101}, 8);
  const Residency near{.pages = {kPageStep, 4}, .optimizer_state = kBeyond, .inputs = 3, .near = kKiB * 256};
  all.push_back(plan_with(deep, 2, {BlockMode::cheap}, 1, kTrainAndValidate, kStreamedBlocks[2]));
  all.push_back(plan_with(deep, 4, {BlockMode::keep}, 1, kTrainAndValidate, near, 1, round_device()));
  return all;
}

const json& phase_of(const json& plan, const json& series) {
  for (const json& phase : plan.at("predicted").at("phases")) {
    if (phase.at("name") == series.at("phase")) return phase;
  }
  throw std::runtime_error("there is no such phase");
}

// Bytes of the first tier at a step, from the ranges of the values.
std::int64_t bytes_at(const json& plan, const std::string& phase, int step) {
  std::int64_t sum = 0;
  for (const json& value : plan.at("values")) {
    if (!value.at("alias_of").is_null() || value.at("action") == "paged") continue;
    for (const json& range : value.at("ranges")) {
      if (range.at("phase") == phase && range.at("begin") <= step && step < range.at("end")) {
        sum += value.at("bytes").get<std::int64_t>();
      }
    }
  }
  return sum;
}

TEST(MemorySeries, SumsEqualThePhasesAndTheValues) {
  for (const Plan& plan : plans()) {
    const json object = to_json(plan, {}, /*values=*/true);
    ASSERT_EQ(object.at("timeline").size(), object.at("/predicted/phases"_json_pointer).size());
    for (const json& series : object.at("timeline")) {
      SCOPED_TRACE(plan.plan_hash + " " + series.at("phase").dump());
      const json &steps = series.at("steps"), &owners = series.at("tiers").at(plan.tiers[0].name);
      std::int64_t peak = -1;
      std::size_t peak_point = 0;
      for (std::size_t point = 0; point < steps.size(); ++point) {
        std::int64_t sum = 0;
        for (const json& bytes : owners) sum += bytes.at(point).get<std::int64_t>();
        EXPECT_EQ(sum, bytes_at(object, series.at("phase"), steps.at(point)));
        if (sum > peak) peak = sum, peak_point = point;
      }
      EXPECT_EQ(peak, phase_of(object, series).at("live_bytes"));
      for (const auto& [owner, bytes] : owners.items()) {
        EXPECT_EQ(bytes.at(peak_point), phase_of(object, series).at("owners").value(owner, 0)) << owner;
      }
    }
  }
}

TEST(MemorySeries, OtherTiersAddUpToTheirArenas) {
  bool seen = false;
  for (const Plan& plan : plans()) {
    const json object = to_json(plan, {}, false);
    for (const json& tier : object.at("/predicted/tiers"_json_pointer)) {
      if (tier.at("name") == plan.tiers[0].name) continue;
      seen = true;
      for (const json& series : object.at("timeline")) {
        std::int64_t sum = 0;
        for (const json& bytes : series.at("tiers").at(tier.at("name"))) sum += bytes.back().get<std::int64_t>();
        EXPECT_EQ(sum, tier.at("live_bytes"));
      }
    }
  }
  EXPECT_TRUE(seen);
}

// A point holds until the next one, so every step of an unthinned series is known.
TEST(MemorySeries, PointsLieWhereBytesChange) {
  const Plan plan = plans().front();
  const json object = to_json(plan, {}, /*values=*/true);
  for (const PhaseSeries& series : memory_series(plan)) {
    std::size_t point = 0;
    for (int step = series.steps.front(); step <= series.steps.back(); ++step) {
      if (point + 1 < series.steps.size() && series.steps[point + 1] == step) ++point;
      Bytes sum;
      for (const OwnerSeries& owner : series.tiers[0].owners) sum += owner.bytes[point];
      EXPECT_EQ(sum.n, bytes_at(object, series.phase, step)) << series.phase << " at step " << step;
    }
  }
}

TEST(MemorySeries, FewPointsKeepEveryMaximum) {
  constexpr std::size_t kFew = 32;
  for (const Plan& plan : plans()) {
    const std::vector<PhaseSeries> whole = memory_series(plan), few = memory_series(plan, kFew);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      SCOPED_TRACE(plan.plan_hash + " " + whole[i].phase);
      EXPECT_LE(whole[i].steps.size(), kMostPoints);
      EXPECT_LE(few[i].steps.size(), kFew);
      EXPECT_TRUE(std::ranges::is_sorted(few[i].steps));
      EXPECT_EQ(few[i].steps.front(), whole[i].steps.front());
      EXPECT_EQ(few[i].steps.back(), whole[i].steps.back());
      for (std::size_t owner = 0; owner < whole[i].tiers[0].owners.size(); ++owner) {
        EXPECT_EQ(std::ranges::max(few[i].tiers[0].owners[owner].bytes), std::ranges::max(whole[i].tiers[0].owners[owner].bytes));
      }
      const auto peak = [](const PhaseSeries& series) {
        Bytes most;
        for (std::size_t point = 0; point < series.steps.size(); ++point) {
          Bytes sum;
          for (const OwnerSeries& owner : series.tiers[0].owners) sum += owner.bytes[point];
          most = std::max(most, sum);
        }
        return most;
      };
      EXPECT_EQ(peak(few[i]), peak(whole[i]));
    }
  }
}

TEST(MemorySeries, HasEveryStepIfAsked) {
  for (const Plan& plan : plans()) {
    for (const PhaseSeries& phase : memory_series(plan, kEveryStep)) {
      const auto planned = std::ranges::find(plan.phases, phase.phase, &PhasePlan::name);
      ASSERT_NE(planned, plan.phases.end());
      const StepRange range = plan.timeline.of(planned->phase);
      const LiveProfile live = live_profile(plan.lifetimes, plan.timeline, planned->phase);
      ASSERT_EQ(static_cast<int>(phase.steps.size()), range.end - range.begin);
      for (std::size_t i = 0; i < phase.steps.size(); ++i) {
        EXPECT_EQ(phase.steps[i], range.begin + static_cast<int>(i));
        Bytes sum;
        for (const OwnerSeries& owner : phase.tiers[0].owners) sum += owner.bytes[i];
        EXPECT_EQ(sum, live.bytes[i]) << phase.phase << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
