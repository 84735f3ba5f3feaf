// Samples of their own lengths: the samples and losses of an update do not depend on micro-batches, packing or the order of rows.
// With a fixed micro-batch, every plan gives equal bits in exactly the planned bytes.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <set>

#include "run/chat_data.h"

namespace plimsoll {
namespace {

constexpr int kUpdates = 4;

Config llama_config() { return decoder_config(kLlama, 32, 4); }

Config with(Config config, bool packing, std::int64_t tokens = 0) {
  config.batch.packing = packing;
  config.train.effective_tokens = tokens;
  if (tokens > 0) config.train.effective_batch = std::max<std::int64_t>(1, tokens / kChatContext);
  return config;
}

struct Trained {
  std::vector<Metrics> updates;
  EvaluationResult evaluated;
};

Trained train_with(const Config& config, std::int64_t micro, const ChatData& data, BlockMode mode = BlockMode::keep) {
  const Plan plan = plan_with(config, micro, {mode}, 1, facts_with_windows(config, data.files));
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
    const DataFacts known = facts_with_windows(config, data.files);
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
    EXPECT_EQ(updates_of_epochs(config, *data.files.train), 7);
    const Plan plan = plan_with(config, 3, {BlockMode::keep}, 1, facts_with_windows(config, data.files));
    Session session(config, plan, data.files);
    session.trainer().load(nullptr);
    std::int64_t units = 0;
    for (int i = 0; i < 7; ++i) units += session.trainer().update().units;
    EXPECT_EQ(session.trainer().progress().samples, 40);
    EXPECT_EQ(units, 2 * epoch_facts(config, *data.files.train).units);
  }
}

// The samples of a file, with fields that are changed after fill().
class Changed : public SampleSource {
 public:
  Changed(const TokenFile& file, bool packs) : samples_(file, kChatContext, packs) {}
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
    const auto numbers = [&](std::string_view name) {
      const auto found = std::ranges::find(fields, name, &FieldBuffer::name);
      return found == fields.end() ? std::span<std::int32_t>() : found->view.as<std::int32_t>();
    };
    change(samples, numbers("tokens"), numbers("targets"), numbers("segments"));
  }

 protected:
  using Numbers = std::span<std::int32_t>;
  virtual void change(std::span<const PlacedSample> samples, Numbers tokens, Numbers targets, Numbers segments) const = 0;
  // The part of a field that holds a sample.
  Numbers part(Numbers field, const PlacedSample& sample) const {
    const auto begin = static_cast<std::size_t>(sample.row * kChatContext + sample.begin);
    return field.subspan(begin, static_cast<std::size_t>(size(sample.ref.sample).positions));
  }

 private:
  StoredSamples samples_;
};

// Samples of one row see each other.
class Joined final : public Changed {
 public:
  using Changed::Changed;

 protected:
  void change(std::span<const PlacedSample>, Numbers, Numbers, Numbers segments) const override {
    std::ranges::fill(segments, 0);
  }
};

// Only one sample counts. The tokens of another sample may be changed.
class OneCounts final : public Changed {
 public:
  OneCounts(const TokenFile& file, bool packs, std::int64_t counted, std::int64_t altered = -1, bool joined = false)
      : Changed(file, packs), counted_(counted), altered_(altered), joined_(joined) {}

 protected:
  void change(std::span<const PlacedSample> samples, Numbers tokens, Numbers targets, Numbers segments) const override {
    const auto next = [](std::int32_t token) { return token < 0 ? token : (token + 1) % static_cast<std::int32_t>(kChatVocab); };
    for (const PlacedSample& sample : samples) {
      if (sample.ref.sample != counted_) std::ranges::fill(part(targets, sample), -1);
      if (sample.ref.sample != altered_) continue;
      for (const Numbers field : {part(tokens, sample), part(targets, sample)})
        std::ranges::transform(field, field.begin(), next);
    }
    if (joined_) std::ranges::fill(segments, 0);
  }

 private:
  std::int64_t counted_, altered_;
  bool joined_;
};

// The first updates of a training on such a source.
std::vector<Metrics> train_on(const Config& config, std::int64_t micro, const ChatData& data, const SampleSource& source,
                              const Faults& faults = {}, int updates = 1) {
  const DataFacts known = facts_with_windows(config, data.files);
  const Plan plan = plan_with(config, micro, {BlockMode::keep}, 1, known);
  TrainingGraph model = build_training_graph(config, known, micro);
  const Program program = lower(plan);
  const Arena arena(plan.arena);
  CpuDevice device(arena);
  Executor executor(plan.graph, program, device, plan.threads, plan.decisions.loss_chunks);
  Trainer trainer(config, model, plan, executor, {source, nullptr, "changed", window_rule(config, *data.files.train)});
  trainer.make_wrong(faults);
  trainer.load(nullptr);
  std::vector<Metrics> result;
  for (int i = 0; i < updates; ++i) result.push_back(trainer.update());
  return result;
}

Window first_window(const Config& config, const ChatData& data, const SampleSource& source) {
  Window window;
  cut_window(sample_order(config, source.count()), source, window_rule(config, *data.files.train), 0, window);
  return window;
}

// The checks above would detect a pack whose samples see each other.
TEST_P(Ragged, APackThatAttendsAcrossSamplesIsCaught) {
  const ChatData data;
  const Config config = with(Ragged::config(), true);
  const double wrong = train_on(config, 2, data, Joined(data.train(), true)).front().loss;
  const double right = train_with(config, 2, data).updates.front().loss;
  EXPECT_GT(std::abs(wrong / right - 1), 1e-5);
}

// With noise, in training: a sample's loss has the same bits for any content of another sample of the window.
TEST_P(Ragged, ASampleOfAPackDoesNotDependOnTheOthers) {
  const ChatData data;
  const Config config = with(Ragged::config(), true);
  const Window window = first_window(config, data, StoredSamples(data.train(), kChatContext, true));
  ASSERT_EQ(window.samples, 6);
  EXPECT_LT(window.rows, window.samples) << "rows hold several samples";
  const std::int64_t altered = window.placed.front().ref.sample;
  int seen = 0;
  for (const PlacedSample& each : window.placed) {
    const std::int64_t sample = each.ref.sample;
    const auto loss = [&](std::int64_t other, bool joined) {
      return train_on(config, 2, data, OneCounts(data.train(), true, sample, other, joined)).front().loss;
    };
    const double before = loss(-1, false), after = loss(altered, false);
    EXPECT_GT(before, 0);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(before) == std::bit_cast<std::uint64_t>(after), sample != altered) << sample;
    seen += loss(-1, true) != loss(altered, true) ? 1 : 0;
  }
  EXPECT_GT(seen, 1) << "if samples of a row saw each other, it would be noticed";
}

// Losses and gradients add up by trained tokens. A mean of the means of micro-batches is another number, and another step.
TEST_P(Ragged, AMeanOfMeansIsCaught) {
  const ChatData data;
  const Config config = with(Ragged::config(), false);
  const StoredSamples samples(data.train(), kChatContext, false);
  const Window window = first_window(config, data, samples);
  constexpr std::int64_t kMicro = 2;
  std::vector<double> sums(3), units(3);  // of each micro-batch
  for (const PlacedSample& each : window.placed) {
    const auto micro = static_cast<std::size_t>(each.row / kMicro);
    const double share = train_on(config, kMicro, data, OneCounts(data.train(), false, each.ref.sample)).front().loss;
    sums[micro] += share * static_cast<double>(window.units);
    units[micro] += static_cast<double>(samples.size(each.ref.sample).units);
  }
  const auto total = static_cast<double>(window.units);
  double right = 0, wrong = 0;
  Faults faults;  // the gradient of that mean
  for (std::size_t micro = 0; micro < 3; ++micro) {
    right += sums[micro] / total;
    wrong += sums[micro] / units[micro] / 3;
    faults.weights.push_back(total / units[micro] / 3);
  }
  const Metrics ours = train_on(config, kMicro, data, samples).front();
  EXPECT_NEAR(ours.loss / right, 1, 1e-6);
  EXPECT_GT(std::abs(ours.loss / wrong - 1), 1e-4);
  const double norm = train_on(config, kMicro, data, samples, faults).front().grad_norm;
  EXPECT_GT(std::abs(norm / ours.grad_norm - 1), 1e-3) << "more than between micro-batches";
}

}  // namespace
}  // namespace plimsoll
