// The length of a run, and the bytes that it writes.
#include "prepare/run_length.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/conversations.h"
#include "data/token_files.h"
#include "data/token_stream.h"
#include "plan/passes/paging.h"
#include "plan/small_models.h"
#include "prepare/bytes_written.h"
#include "weights/checkpoint.h"

namespace plimsoll {
namespace {

using nlohmann::json;

struct SmallRun {
  Config config = config_for(kShapes[0], 4);
  PlanningInput input;
  Plan plan;

  explicit SmallRun(const Residency& residency = {})
      : plan(plan_with(config, 2, {BlockMode::keep}, 1, kTrainAndValidate, residency)) {
    config.train.updates = 10;
    config.data.order = OrderKind::sequential;
    input.request = plan_request(config);
    input.machine.machine = round_machine();
    plan.update_seconds = 2;
  }
  json length() const { return run_json(config, input, plan, times_of(config, input, plan)); }
};

TEST(RunLength, FollowsFromTheContextIfTheDataAreMissing) {
  const SmallRun run;
  const json length = run.length();
  EXPECT_EQ(length.at("updates"), 10);
  EXPECT_EQ(length.at("samples"), 40);
  EXPECT_EQ(length.at("tokens"), 40 * run.config.model.context);
  EXPECT_EQ(length.at("trained_units"), 40 * run.config.model.context);
  EXPECT_EQ(length.at("epochs"), nullptr);
  EXPECT_DOUBLE_EQ(length.at("seconds").get<double>(), 20);
  EXPECT_EQ(length.at("micro_batch_chosen"), true);
}

TEST(RunLength, TrainedUnitsOfMissingSamplesAreUnknown) {
  SmallRun run;
  run.config.data.format = "chat";
  EXPECT_EQ(run.length().at("trained_units"), nullptr);
}

// 64 targets are four samples of 16, so each update is an epoch.
TEST(RunLength, CountsTheDataThatAreThere) {
  SmallRun run;
  const ScratchFolder folder;
  write_raw(folder / "x.bin", u16_bytes(counting(65, 100)));
  run.input.data.train = std::make_unique<TokenStream>(open_source({folder / "x.bin", "u16", 65536, {}, {}}));
  const json length = run.length();
  EXPECT_EQ(length.at("tokens"), 640);
  EXPECT_DOUBLE_EQ(length.at("epochs").get<double>(), 10);
}

TEST(RunLength, AnEvaluationFollowsTheLastUpdate) {
  SmallRun run;
  EXPECT_EQ(run.length().at("evaluations"), 0) << "no validation";
  run.input.facts.validation = true;
  EXPECT_EQ(run.length().at("evaluations"), 1);
  run.config.train.evaluate_every = {3, ClockUnit::updates};
  EXPECT_EQ(run.length().at("evaluations"), 4) << "after 3, 6, 9 and 10";
  run.config.train.evaluate_every = {5, ClockUnit::updates};
  EXPECT_EQ(run.length().at("evaluations"), 2) << "after 5 and 10";
  EXPECT_EQ(run.length().at("evaluation_seconds"), nullptr) << "the data are missing";
}

TEST(RunLength, SecondsAddUp) {
  SmallRun run;
  const ScratchFolder folder;
  write_raw(folder / "x.bin", u16_bytes(counting(65, 100)));
  run.input.facts.validation = true;
  run.input.data.validation = std::make_unique<TokenStream>(open_source({folder / "x.bin", "u16", 65536, {}, {}}));
  const json length = run.length();
  const auto seconds = [&](const char* key) { return length.at(key).get<double>(); };
  EXPECT_GT(seconds("evaluation_seconds"), 0);
  EXPECT_GT(seconds("save_seconds"), 0);
  EXPECT_DOUBLE_EQ(seconds("total_seconds"), seconds("seconds") + seconds("evaluation_seconds") + seconds("save_seconds"));
}

TEST(EpochJson, TellsTheShareOfRowsThatSamplesTake) {
  const EpochFacts epoch{.samples = 5, .units = 20, .positions = 30, .updates = 1, .all_rows = 2};
  const json plain = epoch_json(epoch, Conversations(TokenFile()), 20);
  EXPECT_EQ(plain.at("samples"), 5);
  EXPECT_EQ(plain.at("tokens"), 30);
  EXPECT_EQ(plain.at("trained_units"), 20);
  EXPECT_EQ(plain.at("rows"), 2);
  EXPECT_DOUBLE_EQ(plain.at("fill").get<double>(), 0.75);
  EXPECT_FALSE(plain.contains("data")) << "nothing was counted";
  TokenFile file;
  file.counts.read = 6;
  EXPECT_EQ(epoch_json(epoch, Conversations(std::move(file)), 20).at("data").at("samples"), 6);
}

TEST(Saves, ComeInTheirIntervalAndAtTheEnd) {
  SmallRun run;
  const auto checkpoints = [&](SaveInterval every) {
    run.config.save.every = every;
    return saves_of(run.config, run.plan).checkpoints;
  };
  EXPECT_EQ(checkpoints({.updates = 0, .seconds = 0}), 1);
  EXPECT_EQ(checkpoints({.updates = 3, .seconds = 0}), 4) << "after 3, 6, 9 and 10";
  EXPECT_EQ(checkpoints({.updates = 5, .seconds = 0}), 2) << "after 5 and 10";
  EXPECT_EQ(checkpoints({.updates = 0, .seconds = 5}), 5) << "20 seconds";
  EXPECT_EQ(checkpoints({.updates = 0, .seconds = 1}), 10) << "no more than updates";
}

TEST(Saves, WriteACheckpointEachAndTheWeightsOnce) {
  SmallRun run;
  const auto bytes = [&](std::int64_t every) {
    run.config.save.every = {.updates = every, .seconds = 0};
    return saves_of(run.config, run.plan).bytes;
  };
  const Bytes checkpoint = checkpoint_bytes(run.plan.graph);
  EXPECT_EQ(bytes(3) - bytes(5), checkpoint * 2);
  EXPECT_GT(bytes(0), checkpoint) << "with the weights";
}

TEST(BytesWritten, AreNoneWithoutADisk) {
  const SmallRun run;
  const json written = written_json(run.config, run.plan);
  for (const char* key : {"load_bytes", "update_bytes", "run_bytes"}) EXPECT_EQ(written.at(key), 0) << key;
  EXPECT_EQ(written.at("save_bytes"), saves_of(run.config, run.plan).bytes.n);
}

// Loading writes the parameters, and no zeros of the state. All of them change in an update.
TEST(BytesWritten, AddUpOverTheRun) {
  const SmallRun run({.pages = {kPageStep, 4}, .optimizer_state = kBeyond, .parameters = kBeyond});
  Bytes parameters;
  for (const Value& value : run.plan.graph.values) {
    if (value.persistent() && value.tier == 1 && value.role == Role::parameter)
      parameters += align_up(value.bytes(), kStoredAlignment);
  }
  ASSERT_GT(parameters, Bytes{});
  const json written = written_json(run.config, run.plan);
  const auto bytes = [&](const char* key) { return written.at(key).get<std::int64_t>(); };
  EXPECT_EQ(bytes("load_bytes"), parameters.n);
  EXPECT_EQ(bytes("update_bytes"), run.plan.stored[1].n);
  EXPECT_EQ(bytes("run_bytes"), bytes("load_bytes") + 10 * bytes("update_bytes"));
}

}  // namespace
}  // namespace plimsoll
