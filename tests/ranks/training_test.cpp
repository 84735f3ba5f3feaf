// Ranks train like one process with the same micro-batch: gradients, losses, norms, evaluation and statistics. Wrong ways to
// share the work fail the same comparison.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "config/config_keys.h"
#include "data/image_files.h"
#include "ranks/rank_run.h"

namespace plimsoll {
namespace {

// Tables of several tiles, so that tensors are cut and others are whole.
Config tied_config(std::int64_t batch = 8) { return config_for({2, 64, 4, 16, 4001}, batch, 0.1); }

RankTask tied_task(const Config& config, const TokenData& data, int stage = 1) {
  RankTask task{.config = config, .data = &data.files, .facts = data.facts(), .micro = 1};
  task.config.parallel.zero = stage;
  return task;
}

constexpr int kStages[] = {1, 2, 3};

class Ranks : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  int stage() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(NumberAndStage, Ranks, testing::Combine(testing::Values(2, 3, 4), testing::ValuesIn(kStages)),
                         [](const auto& each) { return fmt::format("{}_{}", std::get<0>(each.param), std::get<1>(each.param)); });

TEST_P(Ranks, TrainATiedModelWithDropoutLikeOneProcess) {
  const Config config = tied_config();
  const TokenData data(4001, 600, 200);
  RankTask task = tied_task(config, data, stage());
  task.updates = 20;
  expect_same_training(train_ranks(task, ranks()), train_alone(task));
}

TEST_P(Ranks, HoldTheirShareOfTheStateInThePlannedBytes) {
  const Config config = tied_config();
  const TokenData data(4001, 600, 200);
  for (const BlockMode mode : {BlockMode::keep, BlockMode::recompute}) {
    RankTask task = tied_task(config, data, stage());
    task.mode = mode;
    task.watch = Watch::audit;
    const Bytes alone = train_alone(task).state;
    Bytes all;
    for (const Trained& rank : train_ranks(task, ranks())) {
      EXPECT_EQ(rank.audit, "");
      all += rank.state;
      EXPECT_LT(rank.state.n, 1.3 * static_cast<double>(alone.n) / ranks());
      // Twice as much as a gradient; a rank without a shard has a number of it.
      if (stage() > 1) EXPECT_LE(rank.gradients_held.n, rank.state.n / 2 + 4 * 40);
      // Small tensors are whole on all ranks.
      if (stage() > 2) EXPECT_LT(rank.parameters_held.n, rank.state.n / 2 + alone.n / 8);
    }
    EXPECT_EQ(all, alone) << "no state is on two ranks";
  }
}

// Gradients of other shards leave once, the own parameters n - 1 times; the rest is sums of tiles and of losses.
TEST_P(Ranks, SendThePlannedBytes) {
  const TokenData data(4001, 600, 200);
  RankTask task = tied_task(tied_config(), data, stage());
  std::int64_t elements = 0;
  const Graph graph = build_training_graph(task.config, task.facts, 1).graph;
  for (const ValueId id : graph.parameters()) elements += graph.values[id].type.shape.elements();
  const std::int64_t n = ranks();
  Bytes sent;
  for (const Trained& rank : train_ranks(task, ranks())) {
    const auto numbers = static_cast<std::int64_t>(sizeof(double)) * static_cast<std::int64_t>(rank.summed);
    const std::int64_t data = 1;  // the state of the data, before an update
    EXPECT_EQ(rank.sent, rank.planned_sent + Bytes{(n - 1) * (numbers + data)});
    sent += rank.planned_sent;
  }
  // Every element of a gradient goes to its rank from all others, once an update or once a round, and its parameter back.
  const std::int64_t rounds = stage() == 1 ? 1 : (8 + n - 1) / n;
  const double all = 4 * static_cast<double>((rounds + 1) * (n - 1) * elements);
  EXPECT_GE(static_cast<double>(sent.n), all);
  if (stage() < 3) EXPECT_LT(static_cast<double>(sent.n), 1.05 * all);  // else parameters come for each pass
}

TEST(RankTraining, HasEqualBitsInTwoRuns) {
  const TokenData data(4001, 600, 200);
  for (const int stage : kStages) {
    const RankTask task = tied_task(tied_config(), data, stage);
    const std::vector<Trained> first = train_ranks(task, 3), second = train_ranks(task, 3);
    EXPECT_EQ(first.front().parameters, second.front().parameters);
    EXPECT_EQ(first.front().losses, second.front().losses);
  }
}

// Recomputation, groups, stages, and state on a disk change no bit of a reduction tree: gradients go to their rank once a window,
// or once a round.
TEST(RankTraining, HasEqualBitsUnderEveryPlan) {
  const TokenData data(4001, 600, 200);
  const RankTask plain = tied_task(tied_config(), data);
  std::map<bool, std::optional<Trained>> by_tree;  // once a round or not
  for (const int stage : kStages) {
    for (const BlockMode mode : {BlockMode::keep, BlockMode::cheap, BlockMode::recompute}) {
      for (const std::int64_t group : {1, 2, 4}) {
        if (stage > 1 && group == 2) continue;  // neither
        for (const Residency& residency : {Residency{}, Residency{.pages = {1 << 15, 2}, .optimizer_state = kBeyond}}) {
          SCOPED_TRACE(fmt::format("stage {} {} group {} {}", stage, name(mode), group, residency.active()));
          RankTask task = plain;
          task.config.parallel.zero = stage;
          task.mode = mode, task.group = group, task.residency = residency, task.watch = Watch::audit;
          std::optional<Trained>& want = by_tree[stage > 1 && group == 1];
          for (const Trained& rank : train_ranks(task, 2)) {
            EXPECT_EQ(rank.audit, "");
            if (!want) want = rank;
            EXPECT_EQ(rank.parameters, want->parameters);
            EXPECT_EQ(rank.losses, want->losses);
            EXPECT_EQ(rank.norms, want->norms);
          }
        }
      }
    }
  }
  EXPECT_EQ(by_tree.size(), 2u);
}

// Budgets from the smallest to the largest, in memory and with a disk.
class Stages : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Stage, Stages, testing::ValuesIn(kStages), [](const auto& each) { return std::to_string(each.param); });

TEST_P(Stages, HaveEqualBitsForEveryBudget) {
  const TokenData data(4001, 600, 200);
  RankTask task = tied_task(config_for({4, 128, 4, 16, 4001}, 4, 0.1), data, GetParam());
  task.config.train.micro_batch = 1, task.config.train.accumulation = 4;
  task.updates = 2;
  DataFacts facts = task.facts;
  facts.share = {0, 2};
  std::set<std::string> plans;
  std::map<bool, std::set<std::string>> parameters;  // by tree: sums leave a rank once a round or not
  std::set<std::string> on_disk;
  for (const Bytes disk : {Bytes{0}, kGiB}) {
    PlanRequest request = request_of_stage(plan_request(task.config, {}, 2), GetParam());
    if (disk.n > 0) request.beyond = {disk};
    OpCatalogue catalogue(one_thread().rates, {});
    PlanSpace space(source_for(task.config, facts), request, one_thread(), catalogue);
    const std::int64_t floor = space.floor().n, ceiling = space.ceiling().n;
    for (int i = 0; i < 10; ++i) {
      const Plan plan = std::get<Plan>(space.best({Bytes{floor + (ceiling - floor) * i / 9}, {}, disk}));
      if (!plans.insert(plan.plan_hash).second) continue;
      for (const Value& value : plan.graph.values) {
        if (value.persistent() && value.tier > 0) on_disk.insert(std::string(name(value.role)));
      }
      task.decisions = plan.decisions, task.watch = Watch::audit;
      for (const Trained& rank : train_ranks(task, 2)) {
        EXPECT_EQ(rank.audit, "");
        parameters[GetParam() > 1 && plan.decisions.window().rounds() > 1].insert(rank.parameters);
      }
    }
  }
  EXPECT_GT(plans.size(), 2u);
  // Gradients follow the parameters, which rest in shards in stage 3.
  EXPECT_EQ(on_disk.size(), GetParam() == 3 ? 3u : 1u);
  for (const auto& [by_round, of_tree] : parameters) EXPECT_EQ(of_tree.size(), 1u) << by_round;
}

// Shards of parameters and gradients on the disk of their rank change no bit, and take the planned bytes.
TEST(RankTraining, KeepsShardsOnADisk) {
  const TokenData data(4001, 600, 200);
  RankTask task = tied_task(config_for({3, 256, 4, 16, 4001}, 6, 0.1), data);
  task.watch = Watch::audit;
  const Residency state{.pages = {1 << 15, 2}, .optimizer_state = kBeyond};
  Residency sums = state;
  sums.accumulators = kBeyond;
  Residency both = sums;
  both.parameters = kBeyond;
  Residency narrow = both;
  narrow.by_matrix = true;
  const double matrices = 3 * 12 * 256 * 256;  // elements of the blocks
  for (const auto& [ranks, compute] : {std::pair{2, DType::f32}, {3, DType::bf16}}) {
    std::optional<Trained> want;
    for (const auto& [stage, residency] : {std::pair{2, Residency{}}, {2, sums}, {3, sums}, {3, both}, {3, narrow}}) {
      SCOPED_TRACE(fmt::format("{} ranks stage {} {} {}", ranks, stage, residency.parameters.beyond, residency.by_matrix));
      task.config.parallel.zero = stage, task.config.precision.compute = compute;
      task.residency = residency;
      for (const BlockMode mode : {BlockMode::keep, BlockMode::recompute}) {
        task.mode = mode;
        for (const Trained& rank : train_ranks(task, ranks)) {
          EXPECT_EQ(rank.audit, "");
          if (!want) want = rank;
          EXPECT_EQ(rank.parameters, want->parameters);
          EXPECT_EQ(rank.losses, want->losses);
          EXPECT_EQ(rank.norms, want->norms);
          EXPECT_EQ(rank.evaluated.loss, want->evaluated.loss);
          const double share = 0.7 * 4 * matrices / ranks;
          EXPECT_EQ(static_cast<double>((rank.gradients_held - rank.gradients_here).n) > share, residency.accumulators.beyond);
          EXPECT_EQ(static_cast<double>((rank.parameters_held - rank.parameters_here).n) > share, residency.parameters.beyond);
        }
      }
    }
  }
}

// With one micro-batch for each rank, gradients leave during the backward pass; without a clip parameters are updated there.
TEST(RankTraining, UpdatesEarlyLikeOneProcess) {
  const TokenData data(4001, 600, 200);
  for (const auto& [clip, stage] :
       {std::pair{0.0, 1}, std::pair{1.0, 1}, std::pair{0.0, 2}, std::pair{1.0, 2}, std::pair{0.0, 3}, std::pair{1.0, 3}}) {
    RankTask task = tied_task(tied_config(3), data, stage);
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
    for (const int stage : kStages) {
      const RankTask task = tied_task(tied_config(batch), data, stage);
      expect_same_training(train_ranks(task, ranks), train_alone(task));
    }
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
      const Trained alone = train_alone(task);
      for (const int stage : kStages) {
        task.config.parallel.zero = stage;
        const std::vector<Trained> ranks = train_ranks(task, 3);
        expect_same_training(ranks, alone);
        for (const Trained& rank : ranks) EXPECT_EQ(rank.audit, "");
      }
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
      const Trained alone = train_alone(task);
      for (const int stage : kStages) {
        task.config.parallel.zero = stage;
        const std::vector<Trained> ranks = train_ranks(task, 2);
        for (const Trained& rank : ranks) {
          EXPECT_EQ(rank.losses, ranks.front().losses);
          EXPECT_EQ(rank.parameters, ranks.front().parameters);
          EXPECT_EQ(rank.audit, "");
          for (std::size_t u = 0; u < rank.losses.size(); ++u) EXPECT_NEAR(rank.losses[u] / alone.losses[u], 1, 1e-3);
        }
      }
    }
  }
}

// A matrix that all readers round to 16 bits rests as a shard in fp32 and a copy in 16 bits: per element 2 + 4 / n bytes.
TEST(RankTraining, KeepsCopiesIn16Bits) {
  const TokenData data(301, 600, 200);
  for (const DType compute : {DType::bf16, DType::f16}) {
    RankTask task = tied_task(config_for({2, 256, 4, 16, 301}, 8, 0.1), data);
    task.config.precision.compute = compute;
    task.watch = Watch::audit;
    const Trained alone = train_alone(task);
    std::map<bool, std::optional<Trained>> by_tree;
    for (const int ranks : {2, 3}) {
      by_tree.clear();
      for (const int stage : kStages) {
        SCOPED_TRACE(fmt::format("{} {} ranks stage {}", plimsoll::name(compute), ranks, stage));
        task.config.parallel.zero = stage;
        std::optional<Trained>& want = by_tree[stage > 1];
        for (const Trained& rank : train_ranks(task, ranks)) {
          EXPECT_EQ(rank.audit, "");
          if (!want) want = rank;
          EXPECT_EQ(rank.losses, want->losses);
          EXPECT_EQ(rank.parameters, want->parameters);
          EXPECT_EQ(rank.evaluated.loss, want->evaluated.loss);
          for (std::size_t u = 0; u < rank.losses.size(); ++u) EXPECT_NEAR(rank.losses[u] / alone.losses[u], 1, 1e-3);
          const double matrices = 2 * 12 * 256 * 256, whole = static_cast<double>(alone.parameters_held.n) - 4 * matrices;
          const double held = (stage < 3 ? 2 : 0) + 4.0 / ranks;
          EXPECT_NEAR(static_cast<double>(rank.parameters_held.n) - whole, held * matrices, 0.2 * matrices);
        }
      }
    }
  }
}

// Gradients in bf16 are held, sent and summed in two bytes, under the rules of the other precisions.
TEST(RankTraining, SumsGradientsInBf16) {
  const TokenData data(301, 600, 200);
  RankTask task = tied_task(config_for({2, 256, 4, 16, 301}, 8, 0.1), data);
  task.config.precision.compute = DType::bf16;
  const double whole = static_cast<double>(train_alone(task).gradients_held.n);
  task.config.precision.gradients = DType::bf16;
  task.watch = Watch::audit;
  const Trained alone = train_alone(task);
  const double matrices = 2 * 12 * 256 * 256;
  EXPECT_NEAR(whole - static_cast<double>(alone.gradients_held.n), 2 * matrices, 0.01 * matrices);
  for (const int ranks : {2, 3}) {
    std::map<bool, std::optional<Trained>> by_tree;
    for (const int stage : kStages) {
      SCOPED_TRACE(fmt::format("{} ranks stage {}", ranks, stage));
      task.config.parallel.zero = stage;
      const std::vector<Trained> all = train_ranks(task, ranks);
      std::optional<Trained>& want = by_tree[stage > 1];
      for (const Trained& rank : all) {
        EXPECT_EQ(rank.audit, "");
        if (!want) want = rank;
        EXPECT_EQ(rank.losses, want->losses);
        EXPECT_EQ(rank.norms, want->norms);
        EXPECT_EQ(rank.parameters, want->parameters);
        for (std::size_t u = 0; u < rank.losses.size(); ++u) EXPECT_NEAR(rank.losses[u] / alone.losses[u], 1, 1e-3);
        const double held = stage == 1 ? 2 : 2.0 / ranks;
        const double others = whole - 4 * matrices;
        EXPECT_LT(static_cast<double>(rank.gradients_held.n), (held + 0.05) * matrices + others);
      }
      EXPECT_LT(worst_error(joined(all), alone.gradients), 2e-2);
    }
  }
}

// An overflow on one rank makes all of them run the window again at half the scale.
TEST(RankTraining, LeavesAWindowTogether) {
  const TokenData data(4001, 600, 200);
  RankTask task = tied_task(tied_config(), data);
  task.config.precision.compute = DType::f16;
  const std::vector<Trained> whole = train_ranks(task, 2);
  std::vector<double> scales(2, 0);
  task.fault = [&](int rank, Session& session) {
    if (rank == 1) session.trainer().make_wrong({.overflow = {.update = 2, .micro = 1, .times = 1}});
    session.trainer().on_overflow(
        [&scales, rank](const Overflow& overflow) { scales[static_cast<std::size_t>(rank)] = overflow.scale; });
  };
  const std::vector<Trained> ranks = train_ranks(task, 2);
  EXPECT_GT(scales[0], 0);
  EXPECT_EQ(scales[0], scales[1]);
  EXPECT_EQ(ranks[0].losses, ranks[1].losses);
  EXPECT_EQ(ranks[0].parameters, ranks[1].parameters);
  for (std::size_t u = 0; u < whole[0].losses.size(); ++u) EXPECT_NEAR(ranks[0].losses[u] / whole[0].losses[u], 1, 1e-3) << u;
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
        RankTask task{.config = config,
                      .data = &data.files,
                      .facts = facts_with_windows(config, data.files),
                      .micro = 1,
                      .updates = 5,
                      .watch = Watch::audit};
        const Trained alone = train_alone(task);
        for (const auto& [ranks, stage] : {std::pair{2, 1}, std::pair{3, 1}, std::pair{3, 2}, std::pair{3, 3}}) {
          task.config.parallel.zero = stage;
          const std::vector<Trained> all = train_ranks(task, ranks);
          expect_same_training(all, alone);
          for (const Trained& rank : all) EXPECT_EQ(rank.audit, "");
        }
      }
    }
  }
}

TEST(RankTraining, TakesAdapters) {
  const ModelShape shape{2, 256, 4, 11, 301};
  const TokenData data(shape.vocab, 400, 90);
  for (const AdapterKind kind : {AdapterKind::lora, AdapterKind::dora}) {
    for (const BaseFormat base : {BaseFormat::none, BaseFormat::nf4}) {
      Config config = config_for(shape, 4, 0.1);
      config.adapter.kind = kind;
      config.adapter.rank = 16;
      config.adapter.dropout = 0.1;
      config.base = base;
      RankTask task{
          .config = config, .data = &data.files, .facts = data.facts(), .micro = 1, .updates = 5, .watch = Watch::audit};
      const Trained alone = train_alone(task);
      for (const int stage : kStages) {
        task.config.parallel.zero = stage;
        const std::vector<Trained> ranks = train_ranks(task, 2);
        expect_same_training(ranks, alone);
        for (const Trained& rank : ranks) {
          EXPECT_EQ(rank.audit, "");
          // Updates of DoRA read the whole base.
          const bool in_parts = stage > 2 && kind == AdapterKind::lora;
          EXPECT_EQ(rank.parameters_held.n < 0.7 * static_cast<double>(alone.parameters_held.n), in_parts);
        }
      }
    }
  }
}

// Averages of weights equal those of one process within rounding. The first rank reads shards and whole tensors of all ranks.
TEST_P(Ranks, AverageTheWeightsLikeOneProcess) {
  const TokenData data(4001, 600, 200);
  for (const char* optimizer : {"adamw", "lion", "adafactor"}) {
    const std::vector<Change> changes{{"optimizer.ema_half_life", "2updates"}, {"optimizer.name", optimizer}};
    RankTask task = tied_task(with_changes(tied_config(), changes), data, stage());
    task.watch = Watch::audit;
    const Trained alone = train_alone(task);
    const std::vector<Trained> all = train_ranks(task, ranks());
    for (const Trained& rank : all) EXPECT_EQ(rank.audit, "");
    EXPECT_GE(alone.averages.size(), 28u);
    EXPECT_EQ(all.front().averages.size(), alone.averages.size());
    EXPECT_LT(worst_error(all.front().averages, alone.averages), 1e-3) << optimizer;
    if (optimizer != std::string("lion")) expect_same_training(all, alone);
  }
}

// The window has 7 micro-batches: 4 of rank 0, 3 of rank 1.
TEST(RankTraining, ShowsWrongSums) {
  const TokenData data(4001, 600, 200);
  RankTask task = tied_task(tied_config(7), data);
  task.updates = 1;
  const Trained alone = train_alone(task);
  const auto error = [&](const RankTask& wrong) { return worst_error(joined(train_ranks(wrong, 2)), alone.gradients); };
  EXPECT_LT(error(task), 1e-5);

  RankTask means = task;  // each rank's mean, and then the mean of both
  means.fault = [](int rank, Session& session) {
    const double own = rank == 0 ? 4 : 3;
    session.trainer().make_wrong({.weights = std::vector<double>(7, 7 / (2 * own))});
  };
  EXPECT_GT(error(means), 1e-3) << "a mean of means";

  RankTask absent = task;
  absent.fault = [](int rank, Session& session) {
    if (rank == 1) session.trainer().make_wrong({.weights = std::vector<double>(7, 0.0)});
  };
  EXPECT_GT(error(absent), 1e-2) << "a rank that is left out";

  RankTask noise = task;
  noise.noise_by_rank = true;
  EXPECT_GT(error(noise), 1e-3) << "noise that depends on the rank";
}

// Clears the rows that lookups added before they join the tied table's gradient.
class LosesTiedRows : public RunObserver {
 public:
  LosesTiedRows(const Graph& graph, const Executor& executor) : graph_(graph), executor_(executor) {}
  void before(const Instruction& instruction, bool) override {
    const auto* run = std::get_if<RunKernel>(&instruction);
    if (run == nullptr || graph_.nodes[run->node].section != Section::update) return;
    for (const Operand& input : run->inputs) {
      if (!input.value.valid() || !graph_.values[input.value].name.text().ends_with(".grad.rows")) continue;
      std::ranges::fill(executor_.view(input.value).as<float>(), 0.0F);
      ++cleared;
    }
  }
  void after(const Instruction&, bool) override {}
  int cleared = 0;

 private:
  const Graph& graph_;
  const Executor& executor_;
};

TEST(RankTraining, ShowsALostTiedSum) {
  const TokenData data(4001, 600, 200);
  RankTask task = tied_task(tied_config(4), data);
  task.updates = 1;
  const Trained alone = train_alone(task);
  std::vector<std::unique_ptr<LosesTiedRows>> faults(2);
  task.fault = [&](int rank, Session& session) {
    if (rank == 0) return;
    faults[1] = std::make_unique<LosesTiedRows>(session.graph(), session.executor());
    session.watch(*faults[1]);
  };
  EXPECT_GT(worst_error(joined(train_ranks(task, 2)), alone.gradients), 1e-3);
  ASSERT_NE(faults[1], nullptr);
  EXPECT_GT(faults[1]->cleared, 0);
}

// Batch statistics of a window are pooled over the groups of all ranks.
TEST(RankTraining, PoolsStatistics) {
  constexpr std::int64_t kSize = 8, kClasses = 4, kImages = 60;
  const ScratchFolder folder;
  std::string images = idx_header({kImages, kSize, kSize});
  for (std::int64_t i = 0; i < kImages; ++i) {
    for (std::int64_t at = 0; at < kSize * kSize; ++at)
      images += static_cast<char>((i * 37 + at * (i % kClasses + 1) * 11) % 251);
  }
  write_raw(folder / "images", images);
  write_raw(folder / "labels", idx_labels(kImages, kClasses));
  write_raw(folder / "run.toml",
            "[model]\nkind = 'resnet'\nlayer = 'basic'\nstem = 'cifar'\nstem_width = 8\ndepths = [1, 1]\nwidths = [8, 16]\n"
            "channels = 1\nclasses = 4\n[data]\nformat = 'idx'\ntrain = 'images'\nlabels = 'labels'\nvalidation = '30%'\n"
            "[norm]\nstat_batch = 2\n[optimizer]\nlearning_rate = 1e-3\n[train]\neffective_batch = 10\n");
  const Config config = load_config(folder / "run.toml");
  const DataFiles files = open_data(config, folder / "cache");
  for (const double half_life : {0.0, 2.0}) {
    RankTask task{.config = config, .data = &files, .facts = facts_of(config, files, {}), .micro = 2, .updates = 5};
    task.watch = Watch::audit;
    if (half_life > 0) task.config = with_changes(config, std::vector<Change>{{"optimizer.ema_half_life", "20samples"}});
    const Trained alone = train_alone(task);
    for (const auto& [ranks, stage] : {std::pair{2, 1}, std::pair{3, 1}, std::pair{3, 2}, std::pair{3, 3}}) {
      task.config.parallel.zero = stage;
      const std::vector<Trained> all = train_ranks(task, ranks);
      expect_same_training(all, alone);
      for (const Trained& rank : all) {
        EXPECT_EQ(rank.audit, "");
        EXPECT_EQ(rank.statistics, all.front().statistics);
        EXPECT_LT(worst_error(rank.statistics, alone.statistics), 1e-4);
        if (&rank == &all.front()) EXPECT_LT(worst_error(rank.averages, alone.averages), 1e-4);
      }
      EXPECT_GE(alone.statistics.size(), 6u);
      EXPECT_EQ(alone.averages.empty(), half_life == 0);
    }
  }
}

}  // namespace
}  // namespace plimsoll
