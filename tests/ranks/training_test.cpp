// Ranks train like one process with the same micro-batch: gradients, losses, norms, evaluation and statistics. Wrong ways to share
// the work fail the same comparison.
#include <gtest/gtest.h>

#include "ranks/rank_run.h"

namespace plimsoll {
namespace {

// Tables of several tiles, so that tensors are cut and others are whole.
Config tied_config(std::int64_t batch = 8) { return config_for({2, 64, 4, 16, 4001}, batch, 0.1); }

RankTask tied_task(const Config& config, const TokenData& data) {
  return {.config = config, .data = &data.files, .facts = data.facts(), .micro = 1};
}

class Ranks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Number, Ranks, testing::Values(2, 3, 4), [](const auto& each) { return std::to_string(each.param); });

TEST_P(Ranks, TrainATiedModelWithDropoutLikeOneProcess) {
  const Config config = tied_config();
  const TokenData data(4001, 600, 200);
  RankTask task = tied_task(config, data);
  task.updates = 20;
  expect_same_training(train_ranks(task, GetParam()), train_alone(task));
}

TEST_P(Ranks, HoldTheirShareOfTheStateInThePlannedBytes) {
  const Config config = tied_config();
  const TokenData data(4001, 600, 200);
  for (const BlockMode mode : {BlockMode::keep, BlockMode::recompute}) {
    RankTask task = tied_task(config, data);
    task.mode = mode;
    task.watch = Watch::audit;
    const Bytes alone = train_alone(task).state;
    Bytes all;
    for (const Trained& rank : train_ranks(task, GetParam())) {
      EXPECT_EQ(rank.audit, "");
      all += rank.state;
      EXPECT_LT(rank.state.n, 1.3 * static_cast<double>(alone.n) / GetParam());
    }
    EXPECT_EQ(all, alone) << "no state is on two ranks";
  }
}

}  // namespace
}  // namespace plimsoll
