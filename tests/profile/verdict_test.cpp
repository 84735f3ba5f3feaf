// The verdict: the first that holds, at its boundary, and the step that is offered.
#include "profile/verdict.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

using nlohmann::json;

json lever(const char* name, const char* key, const char* value, double seconds, std::int64_t process, bool within = true,
           bool changes_result = false) {
  return {{"name", name},
          {"changes", json::array({json::array({key, value})})},
          {"process_bytes", process},
          {"update_seconds", seconds},
          {"changes_result", changes_result},
          {"within_budget", within}};
}
json plan_with_levers(const json& levers) { return {{"predicted", {{"update_seconds", 1.0}}}, {"levers", levers}}; }

constexpr Bytes kMemory{1000};
ProfileVerdict on(const UpdateParts& parts, const json& levers = json::array(), double bound = 0.5) {
  return verdict_on(parts, bound, plan_with_levers(levers), kMemory);
}

TEST(ProfileVerdict, IsTheFirstThatHolds) {
  const json more = json::array({lever("more memory: the ceiling", "memory.budget", "900", 0.88, 900, false)});
  EXPECT_EQ(on({.kernels = 0.1, .update = 0.4, .copies = 0.3, .data = 0.2}, more).verdict, "INPUT-BOUND");
  EXPECT_EQ(on({.kernels = 0.2, .update = 0.4, .copies = 0.3, .data = 0.1}, more).verdict, "IO-BOUND");
  EXPECT_EQ(on({.kernels = 0.5, .update = 0.4, .copies = 0.1}, more).verdict, "OPTIMIZER-BOUND");
  EXPECT_EQ(on({.kernels = 0.8, .update = 0.2}, more).verdict, "MEMORY-BOUND");
  EXPECT_EQ(on({.kernels = 0.8, .update = 0.2}).verdict, "COMPUTE-BOUND");
}

TEST(ProfileVerdict, HoldsFromItsBoundaryOn) {
  EXPECT_EQ(on({.kernels = 0.75, .data = 0.25 * 0.6}).verdict, "INPUT-BOUND");
  EXPECT_EQ(on({.kernels = 0.86, .data = 0.14}).verdict, "COMPUTE-BOUND");
  EXPECT_EQ(on({.kernels = 0.86, .copies = 0.14}).verdict, "COMPUTE-BOUND");
  EXPECT_EQ(on({.kernels = 0.66, .update = 0.34}).verdict, "COMPUTE-BOUND");
  const auto ceiling = [](double seconds) {
    return on({.kernels = 1}, json::array({lever("ceiling", "memory.budget", "900", seconds, 900, false)})).verdict;
  };
  EXPECT_EQ(ceiling(0.89), "MEMORY-BOUND");
  EXPECT_EQ(ceiling(0.91), "COMPUTE-BOUND");
}

TEST(ProfileVerdict, SaysTheNumberThatDecides) {
  EXPECT_EQ(on({.kernels = 0.5, .data = 0.5}).why, "50 % of the update waits for data");
  EXPECT_EQ(on({.kernels = 1}, json::array(), 0.4).why, "40 % of the machine's rates are reached");
}

TEST(ProfileVerdict, OffersAStepThatFitsAndSaves) {
  const UpdateParts parts{.kernels = 1};
  EXPECT_FALSE(on(parts, json::array({lever("4 % less", "plan.recompute", "none", 0.96, 500)})).next);
  EXPECT_FALSE(on(parts, json::array({lever("too large", "plan.recompute", "none", 0.5, 500, false)})).next);
  EXPECT_FALSE(on(parts, json::array({lever("too large here", "memory.budget", "2000", 0.92, 2000, false)})).next);
  EXPECT_FALSE(on(parts, json::array({lever("shorter samples", "model.context", "16", 0.5, 500)})).next);
  const ProfileVerdict verdict = on(parts, json::array({lever("fewer", "plan.recompute", "none", 0.9, 500)}));
  ASSERT_TRUE(verdict.next);
  EXPECT_EQ(verdict.next->changes, (Changes{{"plan.recompute", "none"}}));
  EXPECT_DOUBLE_EQ(verdict.next->update_seconds, 0.9);
  EXPECT_NEAR(verdict.next->saved, 0.1, 1e-12);
  EXPECT_FALSE(verdict.next->changes_result);
}

TEST(ProfileVerdict, PrefersAStepThatKeepsTheResult) {
  const json keeps = lever("keeps", "plan.recompute", "none", 0.9, 500);
  const json changes = lever("changes", "precision.compute", "bf16", 0.5, 500, true, true);
  EXPECT_EQ(on({.kernels = 1}, json::array({changes, keeps})).next->text, "keeps");
  const ProfileVerdict only = on({.kernels = 1}, json::array({changes}));
  EXPECT_EQ(only.next->text, "changes");
  EXPECT_TRUE(only.next->changes_result);
}

// The knee is about as fast as the ceiling and takes less.
TEST(ProfileVerdict, TakesTheSmallerOfTwoThatAreAlike) {
  const json levers = json::array({lever("the ceiling", "memory.budget", "900", 0.80, 900, false),
                                   lever("the knee", "memory.budget", "600", 0.82, 600, false)});
  EXPECT_EQ(on({.kernels = 1}, levers).next->text, "the knee");
}

// More memory helps, but this machine has less.
TEST(ProfileVerdict, OffersAnotherStepIfTheMemoryIsTooLarge) {
  const json levers = json::array(
      {lever("the ceiling", "memory.budget", "2000", 0.80, 2000, false), lever("fewer", "plan.recompute", "none", 0.9, 500)});
  const ProfileVerdict verdict = on({.kernels = 1}, levers);
  EXPECT_EQ(verdict.verdict, "MEMORY-BOUND");
  ASSERT_TRUE(verdict.next);
  EXPECT_EQ(verdict.next->text, "fewer");
}

// A run that goes on from a checkpoint keeps its precision.
TEST(ProfileVerdict, OffersAStepThatIsPermitted) {
  const json levers = json::array({lever("bf16", "precision.compute", "bf16", 0.5, 500, true, true),
                                   lever("8bit", "precision.optimizer_state", "8bit", 0.6, 500, true, true),
                                   lever("micro-batch 4", "train.micro_batch", "4", 0.9, 500, true, true)});
  const auto permitted = [](const Changes& changes) { return !changes.front().key.starts_with("precision."); };
  const ProfileVerdict verdict = verdict_on({.kernels = 1}, 0.5, plan_with_levers(levers), kMemory, permitted);
  ASSERT_TRUE(verdict.next);
  EXPECT_EQ(verdict.next->text, "micro-batch 4");
}

// Faster kernels only wait longer for data.
TEST(ProfileVerdict, OffersNothingAgainstSlowData) {
  EXPECT_FALSE(on({.kernels = 0.5, .data = 0.5}, json::array({lever("fewer", "plan.recompute", "none", 0.5, 500)})).next);
}

}  // namespace
}  // namespace plimsoll
