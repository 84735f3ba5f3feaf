// Ranks train like one process with the same micro-batch: gradients, losses, norms, evaluation and statistics. Wrong ways to share
// the work fail the same comparison.
#include <fmt/core.h>
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

// Gradients of other shards leave once, the own parameters n - 1 times; the rest is sums of tiles and of losses.
TEST_P(Ranks, SendThePlannedBytes) {
  const TokenData data(4001, 600, 200);
  RankTask task = tied_task(tied_config(), data);
  std::int64_t elements = 0;
  const Graph graph = build_training_graph(task.config, task.facts, 1).graph;
  for (const ValueId id : graph.parameters()) elements += graph.values[id].type.shape.elements();
  const std::int64_t n = GetParam();
  Bytes sent;
  for (const Trained& rank : train_ranks(task, GetParam())) {
    const auto control = static_cast<std::int64_t>(sizeof(double)) * (n - 1) * static_cast<std::int64_t>(rank.summed);
    EXPECT_EQ(rank.sent, rank.planned_sent + Bytes{control});
    sent += rank.planned_sent;
  }
  // Every element of a gradient goes to its rank from all others, and its parameter back.
  const double all = 2.0 * 4 * static_cast<double>((n - 1) * elements);
  EXPECT_GE(static_cast<double>(sent.n), all);
  EXPECT_LT(static_cast<double>(sent.n), 1.05 * all);
}

TEST(RankTraining, HasEqualBitsInTwoRuns) {
  const TokenData data(4001, 600, 200);
  const RankTask task = tied_task(tied_config(), data);
  const std::vector<Trained> first = train_ranks(task, 3), second = train_ranks(task, 3);
  EXPECT_EQ(first.front().parameters, second.front().parameters);
  EXPECT_EQ(first.front().losses, second.front().losses);
}

// Recomputation, groups, and state on a disk change no bit.
TEST(RankTraining, HasEqualBitsUnderEveryPlan) {
  const TokenData data(4001, 600, 200);
  const RankTask plain = tied_task(tied_config(), data);
  const Trained want = train_ranks(plain, 2).front();
  for (const BlockMode mode : {BlockMode::keep, BlockMode::cheap, BlockMode::recompute}) {
    for (const std::int64_t group : {1, 2, 4}) {
      for (const Residency& residency : {Residency{}, Residency{.pages = {1 << 15, 2}, .optimizer_state = kBeyond}}) {
        SCOPED_TRACE(fmt::format("{} group {} {}", name(mode), group, residency.active()));
        RankTask task = plain;
        task.mode = mode, task.group = group, task.residency = residency, task.watch = Watch::audit;
        for (const Trained& rank : train_ranks(task, 2)) {
          EXPECT_EQ(rank.parameters, want.parameters);
          EXPECT_EQ(rank.losses, want.losses);
          EXPECT_EQ(rank.norms, want.norms);
          EXPECT_EQ(rank.audit, "");
        }
      }
    }
  }
}

// With one micro-batch for each rank, gradients leave during the backward pass; without a clip parameters are updated there.
TEST(RankTraining, UpdatesEarlyLikeOneProcess) {
  const TokenData data(4001, 600, 200);
  for (const double clip : {0.0, 1.0}) {
    RankTask task = tied_task(tied_config(3), data);
    task.config.train.gradient_clip = clip;
    task.watch = Watch::audit;
    task.updates = 6;
    const std::vector<Trained> ranks = train_ranks(task, 3);
    expect_same_training(ranks, train_alone(task));
    for (const Trained& rank : ranks) EXPECT_EQ(rank.audit, "");
  }
}

// A micro-batch of the window is left over, or some ranks have none at all.
TEST(RankTraining, TakesABatchThatItDoesNotDivide) {
  const TokenData data(4001, 600, 200);
  for (const auto& [batch, ranks] : {std::pair{7, 2}, std::pair{5, 4}, std::pair{2, 4}}) {
    SCOPED_TRACE(fmt::format("{} {}", batch, ranks));
    const RankTask task = tied_task(tied_config(batch), data);
    expect_same_training(train_ranks(task, ranks), train_alone(task));
  }
}

TEST(RankTraining, TakesEveryOptimizer) {
  const TokenData data(4001, 600, 200);
  for (const auto kind : {OptimizerSettings::Kind::adamw, OptimizerSettings::Kind::sgd, OptimizerSettings::Kind::lion,
                          OptimizerSettings::Kind::adafactor}) {
    for (const DType state : {DType::f32, DType::bf16, DType::u8}) {
      if (state != DType::f32 && kind == OptimizerSettings::Kind::adafactor) continue;
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(kind), plimsoll::name(state)));
      RankTask task = tied_task(tied_config(), data);
      task.config.optimizer.kind = kind;
      task.config.optimizer.momentum = kind == OptimizerSettings::Kind::adafactor ? 0 : 0.9;
      task.config.optimizer.learning_rate = 1e-3;
      task.config.precision.optimizer_state = state;
      task.watch = Watch::audit;
      const std::vector<Trained> ranks = train_ranks(task, 3);
      expect_same_training(ranks, train_alone(task));
      for (const Trained& rank : ranks) EXPECT_EQ(rank.audit, "");
    }
  }
}

TEST(RankTraining, TakesNarrowPrecisions) {
  const TokenData data(4001, 600, 200);
  for (const DType compute : {DType::bf16, DType::f16}) {
    for (const DType parameters : {DType::f32, DType::bf16}) {
      if (parameters != DType::f32 && compute != DType::bf16) continue;
      SCOPED_TRACE(fmt::format("{} {}", plimsoll::name(compute), plimsoll::name(parameters)));
      RankTask task = tied_task(tied_config(), data);
      task.config.precision.compute = compute, task.config.precision.parameters = parameters;
      task.watch = Watch::audit;
      const std::vector<Trained> ranks = train_ranks(task, 2);
      const Trained alone = train_alone(task);
      for (const Trained& rank : ranks) {
        EXPECT_EQ(rank.losses, ranks.front().losses);
        EXPECT_EQ(rank.parameters, ranks.front().parameters);
        EXPECT_EQ(rank.audit, "");
        for (std::size_t u = 0; u < rank.losses.size(); ++u) EXPECT_NEAR(rank.losses[u] / alone.losses[u], 1, 1e-3);
      }
    }
  }
}

// Samples of their own lengths, in rows of their own or packed: windows have different numbers of rows.
TEST(RankTraining, TakesConversations) {
  const ChatData data;
  for (const bool llama : {false, true}) {
    for (const bool packing : {false, true}) {
      for (const std::int64_t tokens : {0, 70}) {
        SCOPED_TRACE(fmt::format("{} {} {}", llama, packing, tokens));
        Config config = llama ? decoder_config(kLlama, 32, 4) : gpt2_config();
        config.batch.packing = packing;
        config.train.effective_tokens = tokens;
        if (tokens > 0) config.train.effective_batch = std::max<std::int64_t>(1, tokens / kChatContext);
        const RankTask task{.config = config,
                            .data = &data.files,
                            .facts = facts_with_windows(config, data.files),
                            .micro = 1,
                            .updates = 5,
                            .watch = Watch::audit};
        for (const int ranks : {2, 3}) {
          const std::vector<Trained> all = train_ranks(task, ranks);
          expect_same_training(all, train_alone(task));
          for (const Trained& rank : all) EXPECT_EQ(rank.audit, "");
        }
      }
    }
  }
}

TEST(RankTraining, TakesAdapters) {
  const ModelShape shape{3, 128, 4, 11, 301};
  const TokenData data(shape.vocab, 400, 90);
  for (const AdapterKind kind : {AdapterKind::lora, AdapterKind::dora}) {
    for (const BaseFormat base : {BaseFormat::none, BaseFormat::nf4}) {
      Config config = config_for(shape, 4, 0.1);
      config.adapter.kind = kind;
      config.adapter.rank = 16;
      config.adapter.dropout = 0.1;
      config.base = base;
      const RankTask task{
          .config = config, .data = &data.files, .facts = data.facts(), .micro = 1, .updates = 5, .watch = Watch::audit};
      const std::vector<Trained> ranks = train_ranks(task, 2);
      expect_same_training(ranks, train_alone(task));
      for (const Trained& rank : ranks) EXPECT_EQ(rank.audit, "");
    }
  }
}

}  // namespace
}  // namespace plimsoll
