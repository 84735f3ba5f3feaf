// Samples of their own lengths: what an update sees, and its losses, do not depend on micro-batches, packing or the order of
// rows. With a micro-batch they have equal bits for every plan, in exactly the planned bytes.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "data/sample_file.h"
#include "models/llama/llama.h"
#include "run/session.h"

namespace plimsoll {
namespace {

constexpr int kUpdates = 4;
constexpr std::int64_t kContext = 24, kVocab = 101;

// Conversations as training sees them: runs of tokens that count and of others.
struct ChatData {
  ScratchFolder folder;
  DataFiles files;

  explicit ChatData(int samples = 61, std::int64_t longest = kContext) {
    files.train = write("train", samples, longest, 1);
    files.validation = write("validation", 17, longest, 2);
  }
  TokenFile write(const char* name, int samples, std::int64_t longest, unsigned seed) {
    std::mt19937 random(seed);
    SampleFileWriter writer(folder / name);
    for (int i = 0; i < samples; ++i) {
      const auto length = 2 + random() % static_cast<unsigned>(longest);
      std::vector<Token> tokens;
      std::vector<std::uint8_t> trained;
      for (unsigned t = 0; t < length; ++t) {
        tokens.push_back(random() % static_cast<unsigned>(kVocab));
        trained.push_back(t + 1 == length || random() % 3 != 0 ? 1 : 0);
      }
      writer.add(tokens, trained);
    }
    writer.commit();
    return open_sample_file(folder / name, name, kVocab, true);
  }
};

Config gpt2_config() { return config_for({2, 32, 4, kContext, kVocab}, 6, 0.1); }

Config llama_config() {
  Config config = gpt2_config();
  config.model.config = kLlama.defaults();
  const std::vector<std::string> shape{"model.layers=2",   "model.width=32",     "model.heads=4",
                                       "model.kv_heads=2", "model.mlp_width=48", fmt::format("model.vocab={}", kVocab)};
  config = with_settings(std::move(config), shape);
  config.model.config = with_positions(config.model.config, kContext);
  config.model.context = kContext;
  return config;
}

Config with(Config config, bool packing, std::int64_t tokens = 0) {
  config.batch.packing = packing;
  config.train.effective_tokens = tokens;
  if (tokens > 0) config.train.effective_batch = std::max<std::int64_t>(1, tokens / kContext);
  return config;
}

DataFacts facts(const Config& config, const DataFiles& files) {
  return facts_of(config, files, ragged_windows(config, epoch_facts(config, files.train)));
}

struct Trained {
  std::vector<Metrics> updates;
  EvaluationResult evaluated;
};

Trained train_with(const Config& config, std::int64_t micro, const ChatData& data, BlockMode mode = BlockMode::keep) {
  const Plan plan = plan_with(config, micro, {mode}, 1, facts(config, data.files));
  Session session(config, plan, data.files);
  session.trainer().load(nullptr);
  Trained result;
  for (int i = 0; i < kUpdates; ++i) result.updates.push_back(session.trainer().update());
  result.evaluated = session.trainer().evaluate_now();
  return result;
}

void expect_same_updates(const Trained& got, const Trained& want, double tolerance) {
  for (std::size_t i = 0; i < want.updates.size(); ++i) {
    EXPECT_EQ(got.updates[i].units, want.updates[i].units) << i;
    EXPECT_EQ(got.updates[i].samples, want.updates[i].samples) << i;
    EXPECT_NEAR(got.updates[i].loss / want.updates[i].loss, 1, tolerance) << i;
    EXPECT_NEAR(got.updates[i].grad_norm / want.updates[i].grad_norm, 1, 20 * tolerance) << i;
  }
  EXPECT_EQ(got.evaluated.units, want.evaluated.units);
  EXPECT_NEAR(got.evaluated.loss / want.evaluated.loss, 1, tolerance);
}

class Ragged : public testing::TestWithParam<bool> {
 protected:
  static Config config() { return GetParam() ? llama_config() : gpt2_config(); }
};
INSTANTIATE_TEST_SUITE_P(Family, Ragged, testing::Bool(), [](const auto& each) { return each.param ? "llama" : "gpt2"; });

TEST_P(Ragged, UpdatesAreEqualForEveryMicroBatchAndPacking) {
  const ChatData data;
  const Trained alone = train_with(with(config(), false), 1, data);
  for (const std::int64_t micro : {2, 3, 6}) expect_same_updates(train_with(with(config(), false), micro, data), alone, 1e-6);
  for (const std::int64_t micro : {1, 2, 3}) expect_same_updates(train_with(with(config(), true), micro, data), alone, 1e-6);
}

TEST_P(Ragged, UpdatesOfTokensAreEqualToo) {
  const ChatData data;
  const Trained alone = train_with(with(config(), false, 70), 1, data);
  std::set<std::int64_t> samples;
  for (const Metrics& update : alone.updates) samples.insert(update.samples - (samples.empty() ? 0 : *samples.rbegin()));
  EXPECT_GT(samples.size(), 1u) << "windows have different numbers of samples";
  for (const std::int64_t micro : {2, 5}) expect_same_updates(train_with(with(config(), false, 70), micro, data), alone, 1e-6);
  for (const std::int64_t micro : {1, 2}) expect_same_updates(train_with(with(config(), true, 70), micro, data), alone, 1e-6);
}

TEST_P(Ragged, SameBitsAndExactBytesForEveryBudget) {
  const ChatData data;
  for (const bool packing : {false, true}) {
    Config config = with(Ragged::config(), packing);
    config.train.micro_batch = 2;
    if (!packing) config.train.accumulation = 3;
    const DataFacts known = facts(config, data.files);
    Planner planner(config, known);
    const std::int64_t floor = planner.space.floor().n, ceiling = planner.space.ceiling().n;
    std::set<std::string> plans, parameters;
    std::set<std::vector<std::uint64_t>> losses;
    for (int i = 0; i < 10; ++i) {
      const Plan plan = planner.plan(Bytes{floor + (ceiling - floor) * i / 9});
      if (!plans.insert(plan.plan_hash).second) continue;
      const Outcome outcome = Session(config, plan, data.files).train(kUpdates);
      parameters.insert(outcome.parameters);
      losses.insert(outcome.losses);
      Session audited(config, plan, data.files, Watch::audit);
      audited.run_all_phases(data.files);
      EXPECT_EQ(difference(plan, audited.audit().phases()), "");
    }
    EXPECT_GT(plans.size(), 1u);
    EXPECT_EQ(parameters.size(), 1u) << packing;
    EXPECT_EQ(losses.size(), 1u) << packing;
  }
}

// The longest sample may come first or last: no micro-step needs more than was planned, and the last window is cut short.
TEST_P(Ragged, EpochsEndWithWhatIsLeft) {
  const ChatData data(20);
  for (const bool packing : {false, true}) {
    Config config = with(Ragged::config(), packing);
    config.train.epochs = 2;
    EXPECT_EQ(updates_of_epochs(config, data.files.train), 7);
    const Plan plan = plan_with(config, 3, {BlockMode::keep}, 1, facts(config, data.files));
    Session session(config, plan, data.files);
    session.trainer().load(nullptr);
    std::int64_t units = 0;
    for (int i = 0; i < 7; ++i) units += session.trainer().update().units;
    EXPECT_EQ(session.trainer().progress().samples, 40);
    EXPECT_EQ(units, 2 * epoch_facts(config, data.files.train).units);
  }
}

// The checks above would see a pack whose samples see each other.
TEST_P(Ragged, APackThatAttendsAcrossSamplesIsCaught) {
  const ChatData data;
  Config config = with(Ragged::config(), true);
  const DataFacts known = facts(config, data.files);
  const Plan plan = plan_with(config, 2, {BlockMode::keep}, 1, known);

  class Joined final : public SampleSource {
   public:
    explicit Joined(const TokenFile& file) : samples_(file, kContext, true) {}
    std::int64_t count() const override { return samples_.count(); }
    SampleSize size(std::int64_t sample) const override { return samples_.size(sample); }
    std::int64_t staging_bytes(std::int64_t rows) const override { return samples_.staging_bytes(rows); }
    void read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const override {
      samples_.read(samples, staging);
    }
    void drop(std::span<const PlacedSample> samples) const override { samples_.drop(samples); }
    void fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
              std::span<const FieldBuffer> fields) const override {
      samples_.fill(samples, staging, fields);
      for (const FieldBuffer& field : fields) {
        if (field.name == "segments") std::ranges::fill(field.view.as<std::int32_t>(), 0);
      }
    }

   private:
    StoredSamples samples_;
  };

  const Joined joined(data.files.train);
  TrainingGraph model = build_training_graph(config, known, 2);
  const Program program = lower(plan);
  const Arena arena(plan.arena);
  CpuDevice device(arena);
  Executor executor(plan.graph, program, device, plan.threads, plan.decisions.loss_chunks);
  Trainer trainer(config, model, plan, executor, {joined, nullptr, "joined", window_rule(config, data.files.train)});
  trainer.load(nullptr);
  const double wrong = trainer.update().loss;
  const double right = train_with(config, 2, data).updates.front().loss;
  EXPECT_GT(std::abs(wrong / right - 1), 1e-5);
}

}  // namespace
}  // namespace plimsoll
