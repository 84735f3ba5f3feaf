// Checkpoints of models with frozen parameters. The file does not contain them; they come from their first source.
#include "weights/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/safetensors.h"
#include "run/session.h"
#include "weights/manifest.h"

namespace plimsoll {
namespace {

const char* const kFrozen[] = {"wte.weight", "h.0.mlp.c_fc.weight", "h.1.ln_1.bias"};
constexpr ModelShape kSmall{2, 16, 2, 8, 40};
constexpr std::int64_t kMicro = 2;

// build_training_graph, with some parameters frozen.
TrainingGraph with_frozen(const Config& config, DataFacts facts, std::int64_t micro) {
  const ModelConfig& gpt2 = config.model.config;
  ModelGraph model = gpt2.family().build(gpt2, {micro, 0, config.model.context}, {.seed = 7});
  for (const char* name : kFrozen) model.graph.values[model.graph.find(name)].parameter->kind = ParameterKind::frozen;
  return train_graph(config, std::move(model), facts, micro);
}

class Frozen : public testing::Test {
 protected:
  Frozen() {
    config_.train.micro_batch = kMicro;
    config_.train.accumulation = 2;
  }

  Plan plan(bool frozen = true) const {
    OpCatalogue catalogue = round_catalogue();
    const GraphSource source = [&](std::int64_t micro) {
      return (frozen ? with_frozen(config_, facts(), micro) : build_training_graph(config_, facts(), micro)).graph;
    };
    PlanSpace space(source, plan_request(config_), round_machine(), catalogue);
    return std::get<Plan>(space.best({space.ceiling(), {}, {}}));
  }
  DataFacts facts() const { return data_.facts(); }

  // The code and message of the error while loading the checkpoint, or nothing.
  std::string error_of_loading(Session& session) const {
    try {
      session.trainer().load(&file_);
    } catch (const Error& error) {
      return error.code + " " + error.message;
    }
    return {};
  }
  static void save(Session& session, const std::filesystem::path& file) {
    session.trainer().progress().seconds = 0;
    session.trainer().save_checkpoint_to(file);
  }

  TokenData data_{kSmall.vocab, 400, 0};
  Config config_ = config_for(kSmall, 4);
  ScratchFolder folder_;
  std::filesystem::path file_ = folder_ / "checkpoint";
};

TEST_F(Frozen, ParametersComeFromTheSeedAgain) {
  const Plan plan = this->plan();
  Session first(config_, with_frozen(config_, facts(), kMicro), plan, data_.files, Watch::audit);
  first.trainer().load(nullptr);
  std::vector<ValueId> values;
  for (const char* name : kFrozen) values.push_back(plan.graph.find(name));
  const std::vector<std::string> before = hashes_of(values, first.executor());
  for (int i = 0; i < 2; ++i) first.trainer().update();
  EXPECT_EQ(hashes_of(values, first.executor()), before);
  save(first, file_);
  EXPECT_EQ(difference(plan, first.audit().phases()), "");

  const SafetensorsFile saved = SafetensorsFile::open(state_file(file_));
  for (const char* name : kFrozen) EXPECT_EQ(saved.find(name), nullptr) << name;
  EXPECT_NE(saved.find("wpe.weight"), nullptr);
  EXPECT_LE(std::filesystem::file_size(state_file(file_)), static_cast<std::uintmax_t>(checkpoint_bytes(plan.graph).n));

  Session second(config_, with_frozen(config_, facts(), kMicro), plan, data_.files);
  second.trainer().load(&file_);
  EXPECT_EQ(second.trainer().hash_parameters(), first.trainer().hash_parameters());
  save(second, folder_ / "again");
  for (const char* name : {kManifestFile, kStateFile}) {
    EXPECT_EQ(read_text(folder_ / "again" / name, 1 << 24, "E-TEST"), read_text(file_ / name, 1 << 24, "E-TEST")) << name;
  }
  first.trainer().update();
  second.trainer().update();
  EXPECT_EQ(second.trainer().hash_parameters(), first.trainer().hash_parameters());

  // The seed is that of the run, not of the configuration.
  config_.seed = 8;
  Session third(config_, with_frozen(config_, facts(), kMicro), plan, data_.files);
  third.trainer().load(&file_);
  EXPECT_EQ(hashes_of(values, third.executor()), before);
}

TEST_F(Frozen, ParametersComeFromTheFolderAgainWhichHasToHoldThem) {
  const Plan plan = this->plan();
  const std::filesystem::path weights = folder_ / "weights";
  config_.seed = 11;
  const auto write_weights = [&] {
    Session other(config_, with_frozen(config_, facts(), kMicro), plan, data_.files);
    other.trainer().load(nullptr);
    other.trainer().save_weights_to(weights);
  };
  write_weights();
  config_.seed = 7;
  config_.model.init = weights;
  Session first(config_, with_frozen(config_, facts(), kMicro), plan, data_.files);
  first.trainer().load(nullptr);
  first.trainer().update();
  save(first, file_);
  {
    // A resumed run may have another folder for the vocabulary.
    config_.model.init.clear();
    Session second(config_, with_frozen(config_, facts(), kMicro), plan, data_.files);
    EXPECT_EQ(error_of_loading(second), "");
    EXPECT_EQ(second.trainer().hash_parameters(), first.trainer().hash_parameters());
  }
  config_.seed = 12;
  write_weights();
  Session third(config_, with_frozen(config_, facts(), kMicro), plan, data_.files);
  const std::string changed = error_of_loading(third);
  EXPECT_TRUE(changed.starts_with("E-CKPT-FROZEN") && changed.find("wte.weight has the hash") != std::string::npos) << changed;
  std::filesystem::remove_all(weights);
  const std::string gone = error_of_loading(third);
  EXPECT_TRUE(gone.starts_with("E-CKPT-FROZEN") && gone.find(weights.string()) != std::string::npos) << gone;
}

TEST_F(Frozen, ParametersAreTheSameInTheCheckpointAndTheRun) {
  const Plan frozen = plan(), trained = plan(/*frozen=*/false);
  Session some(config_, with_frozen(config_, facts(), kMicro), frozen, data_.files), none(config_, trained, data_.files);
  some.trainer().load(nullptr);
  none.trainer().load(nullptr);
  save(some, file_);
  EXPECT_TRUE(error_of_loading(none).starts_with("E-CKPT-FORMAT"));
  save(none, file_);
  EXPECT_EQ(SafetensorsFile::open(state_file(file_)).find("plimsoll.frozen"), nullptr);
  EXPECT_TRUE(error_of_loading(some).starts_with("E-CKPT-FORMAT"));
  EXPECT_EQ(error_of_loading(none), "");
}

}  // namespace
}  // namespace plimsoll
