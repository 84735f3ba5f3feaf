// Changes give the configuration that their text would give, with its request and budget.
#include "prepare/changed_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/expect_error.h"
#include "prepare/small_training.h"

namespace plimsoll {
namespace {

TEST(ChangedConfig, IsTheOneThatTheTextWouldGive) {
  const SmallTraining training;
  const SmallTraining written("updates = 50\n[optimizer]\nlearning_rate = 0.5\n");
  Config changed = with_changes(training.input(), {{"train.updates", 50}, {"optimizer.learning_rate", "0.5"}}).config;
  ASSERT_NE(changed, training.config);
  changed.data = written.config.data;  // they lie in different folders
  EXPECT_EQ(changed, written.config);
}

TEST(ChangedConfig, WithoutChangesIsTheConfiguration) {
  const SmallTraining training;
  EXPECT_EQ(with_changes(training.input(), {}).config, training.config);
}

TEST(ChangedConfig, TheLastOfEqualKeysWins) {
  const SmallTraining training;
  EXPECT_EQ(with_changes(training.input(), {{"train.updates", 5}, {"train.updates", 6}}).config.train.updates, 6);
}

TEST(ChangedConfig, RefusesWhatTheConfigurationRefuses) {
  const SmallTraining training;
  EXPECT_ERROR(with_changes(training.input(), {{"train.update", 5}}), "E-CONFIG-KEY", "train.update is no key");
  EXPECT_ERROR(with_changes(training.input(), {{"train.updates", "many"}}), "E-CONFIG-TYPE", "train.updates");
  PlanningInput without = training.input();
  without.source.reset();
  EXPECT_ERROR(with_changes(without, {}), "E-INTERNAL", "are missing");
}

TEST(ChangedConfig, ItsRequestFollows) {
  const SmallTraining training;
  const ChangedConfig changed =
      with_changes(training.input(), {{"train.effective_batch", 24}, {"model.context", 16}, {"plan.recompute", "all"}});
  EXPECT_EQ(changed.request.effective_batch, 24);
  EXPECT_EQ(changed.request.units_per_sample, 16);
  EXPECT_EQ(changed.request.recompute, RecomputePolicy::all);
}

TEST(ChangedConfig, KeepsTheSettledBudgetUnlessItIsChanged) {
  const SmallTraining training;
  PlanningInput input = training.input();
  input.budget.memory = kGiB;
  EXPECT_EQ(with_changes(input, {{"train.updates", 5}}).budget.memory, kGiB);
  EXPECT_EQ(with_changes(input, {{"memory.budget", "2GiB"}}).budget.memory, kGiB * 2);
}

TEST(ChangedConfig, ADiskIsRoomPastTheFirstTier) {
  const SmallTraining training;
  EXPECT_TRUE(with_changes(training.input(), {}).request.beyond.empty());
  const ChangedConfig changed = with_changes(training.input(), {{"memory.disk", training.folder.path().string() + ":3GiB"}});
  EXPECT_EQ(changed.budget.disk, kGiB * 3);
  EXPECT_EQ(changed.request.beyond, std::vector{kGiB * 3});
}

TEST(ChangedConfig, AFixedMicroBatchStaysUnlessItIsChanged) {
  const SmallTraining training;
  PlanningInput input = training.input();
  input.request.micro_batch = 3;
  EXPECT_EQ(with_changes(input, {{"train.updates", 5}}).config.train.micro_batch, 3);
  const Changes split{{"train.micro_batch", 4}, {"train.accumulation", "auto"}};
  EXPECT_EQ(with_changes(input, split).config.train.micro_batch, 4);
  EXPECT_EQ(with_changes(input, split).request.micro_batch, 4);
  EXPECT_EQ(with_changes(input, {{"train.micro_batch", "auto"}}).request.micro_batch, std::nullopt);
}

TEST(ChangedConfig, WindowsOfTheDataStayIfTheyAreCutTheSame) {
  const SmallTraining training("effective_tokens = 0\n");
  PlanningInput input = training.input();
  input.facts.ragged = RaggedWindows{.rows = 9, .most_rows = 11, .units = 300};
  EXPECT_EQ(with_changes(input, {{"train.updates", 5}}).facts.ragged, input.facts.ragged);
  EXPECT_EQ(with_changes(input, {{"model.context", 16}}).facts.ragged, std::nullopt) << "assumed as for missing data";
}

TEST(Changes, AreListedInTheirOrder) {
  const Changes changes = both({{"seed", 2}}, {{"memory.budget", "1GiB"}, {"command.resume"}});
  EXPECT_EQ(to_json(changes), nlohmann::json::parse(R"([["seed", "2"], ["memory.budget", "1GiB"], ["command.resume", ""]])"));
}

TEST(BudgetText, IsWholeInItsUnit) {
  EXPECT_EQ(budget_text(kGiB * 3), "3GiB");
  EXPECT_EQ(budget_text(kGiB * 3 + kMiB), "3073MiB");
  EXPECT_EQ(budget_text(kMiB + Bytes{1}), "1048577");
  for (const Bytes size : {kGiB * 7, kMiB * 7, Bytes{7}}) EXPECT_EQ(parse_bytes(budget_text(size), "test"), size);
}

}  // namespace
}  // namespace plimsoll
