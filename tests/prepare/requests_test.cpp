// The values that later stages take from a configuration.
#include "prepare/requests.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/small_models.h"
#include "run/place.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kBatch = 12;

Config small_config() { return config_for(kShapes[0], kBatch); }

TEST(PlanRequest, HasTheChoicesOfTheConfiguration) {
  Config config = small_config();
  config.train.micro_batch = 4;
  config.batch.tokens = 100;
  config.plan = {.recompute = RecomputePolicy::none,
                 .group = 3,
                 .loss_chunks = 2,
                 .optimizer_state = RestPolicy::disk,
                 .parameters = RestPolicy::memory,
                 .gradients = RestPolicy::disk,
                 .activations = RestPolicy::memory};
  const RaggedWindows ragged{.rows = 5, .most_rows = 9, .units = 77};
  const PlanRequest request = plan_request(config, ragged);
  EXPECT_EQ(request.effective_batch, kBatch);
  EXPECT_EQ(request.micro_batch, 4);
  EXPECT_EQ(request.most_rows, 100 / config.model.context);
  EXPECT_EQ(request.recompute, RecomputePolicy::none);
  EXPECT_EQ(request.group, 3);
  EXPECT_EQ(request.loss_chunks, 2);
  EXPECT_EQ(request.optimizer_state, RestPolicy::disk);
  EXPECT_EQ(request.parameters, RestPolicy::memory);
  EXPECT_EQ(request.gradients, RestPolicy::disk);
  EXPECT_EQ(request.activations, RestPolicy::memory);
  EXPECT_EQ(request.units_per_sample, config.model.context);
  EXPECT_EQ(request.ragged, ragged);
  EXPECT_TRUE(request.saves);
}

TEST(PlanRequest, LeavesOpenWhatTheConfigurationLeavesOpen) {
  const PlanRequest request = plan_request(small_config());
  EXPECT_EQ(request.micro_batch, std::nullopt);
  EXPECT_EQ(request.group, std::nullopt);
  EXPECT_EQ(request.loss_chunks, std::nullopt);
  EXPECT_EQ(request.most_rows, 0);
  EXPECT_EQ(request.recompute, RecomputePolicy::automatic);
  EXPECT_TRUE(request.beyond.empty());
}

TEST(PlanBudget, IsThatOfTheConfiguration) {
  Config config = small_config();
  EXPECT_EQ(plan_budget(config).memory, std::nullopt);
  EXPECT_EQ(plan_budget(config).disk, std::nullopt);
  config.memory = {.budget = kGiB, .host_memory = kGiB * 2, .disk = DiskBudget{"/tmp", kGiB * 3}};
  EXPECT_EQ(plan_budget(config).memory, kGiB);
  EXPECT_EQ(plan_budget(config).host_memory, kGiB * 2);
  EXPECT_EQ(plan_budget(config).disk, kGiB * 3);
  EXPECT_EQ(plan_request(config).beyond, std::vector{kGiB * 3}) << "kernels run on the host";
}

TEST(RoomsBeyond, AreThoseOfHostAndDisk) {
  const Budget none, disk{.disk = kGiB}, host{.host_memory = kMiB}, both{.host_memory = kMiB, .disk = kGiB};
  using Rooms = std::vector<Bytes>;
  EXPECT_EQ(rooms_beyond(none, /*host=*/false), Rooms{});
  EXPECT_EQ(rooms_beyond(none, /*host=*/true), Rooms{});
  EXPECT_EQ(rooms_beyond(disk, false), Rooms{kGiB});
  EXPECT_EQ(rooms_beyond(disk, true), (Rooms{Bytes{0}, kGiB})) << "nothing rests on the host";
  EXPECT_EQ(rooms_beyond(host, false), Rooms{});
  EXPECT_EQ(rooms_beyond(host, true), Rooms{kMiB});
  EXPECT_EQ(rooms_beyond(both, true), (Rooms{kMiB, kGiB}));
}

TEST(OptimizerSettingsOf, FollowTheConfiguration) {
  Config config = small_config();
  config.optimizer.momentum = 0.9;
  config.optimizer.epsilon = 1e-6;
  config.train.gradient_clip = 0.5;
  config.precision.compute = DType::f16;
  config.precision.optimizer_state = DType::bf16;
  config.precision.rounding = Rounding::nearest;
  const OptimizerSettings settings = optimizer_settings(config);
  EXPECT_TRUE(settings.momentum);
  EXPECT_TRUE(settings.scaled);
  EXPECT_TRUE(settings.nearest);
  EXPECT_EQ(settings.epsilon, 1e-6);
  EXPECT_EQ(settings.clip, 0.5);
  EXPECT_EQ(settings.state, DType::bf16);
  EXPECT_EQ(settings.weight_decay, config.optimizer.weight_decay);
  EXPECT_EQ(settings.seed, 7u);
  EXPECT_EQ(settings.average_blend, 0) << "no average";
}

// After one half-life, the average of a constant has moved half of the way.
TEST(OptimizerSettingsOf, AnAverageMovesHalfOfTheWayInItsHalfLife) {
  constexpr int kUpdates = 10;
  Config config = small_config();
  config.optimizer.ema_half_life = Duration{kUpdates, {}};
  const double blend = optimizer_settings(config).average_blend;
  EXPECT_NEAR(std::pow(1 - blend, kUpdates), 0.5, 1e-12);
}

TEST(PlaceRequestOf, FollowsDeviceAndDisk) {
  Config config = small_config();
  EXPECT_FALSE(place_request(config).cuda);
  EXPECT_EQ(place_request(config).folder, ".");
  config.device = DeviceChoice::cuda;
  config.memory.disk = DiskBudget{"/tmp", kGiB};
  EXPECT_TRUE(place_request(config).cuda);
  EXPECT_EQ(place_request(config).folder, "/tmp");
}

TEST(GraphSourceOf, BuildsTheGraphOfEachMicroBatch) {
  const Config config = small_config();
  const GraphSource source = source_of(config, kTrainAndValidate);
  for (const std::int64_t micro : {1, 3}) {
    EXPECT_EQ(graph_hash(source(micro)), graph_hash(build_training_graph(config, kTrainAndValidate, micro).graph));
  }
  EXPECT_NE(graph_hash(source(1)), graph_hash(source(3)));
}

}  // namespace
}  // namespace plimsoll
