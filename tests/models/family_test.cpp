// A family that no other code knows trains like any other: from its keys, within any budget, with equal bits.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <optional>
#include <set>

#include "config/config.h"
#include "config/config_keys.h"
#include "formats/expect_error.h"
#include "formats/safetensors.h"
#include "formats/scratch_folder.h"
#include "models/all.h"
#include "models/toy/toy.h"
#include "prepare/requests.h"
#include "run/session.h"

namespace plimsoll {
namespace {

using test::kToy;
using test::ToyConfig;
using test::ToySource;

const bool added = (add_family(kToy), true);

constexpr std::int64_t kSamples = 37, kUpdates = 3;

Config toy_config(const std::string& more = {}) {
  const ScratchFolder folder;
  write_raw(folder / "run.toml",
            "data.train = 'none.txt'\n[model]\nkind = 'toy'\nblocks = 4\nwidth = 256\nclasses = 10\n[optimizer]\n"
            "learning_rate = 1e-3\n[machine]\nthreads = 2\n[train]\neffective_batch = 8\nevaluate_samples = 21\n" +
                more);
  return load_config(folder / "run.toml");
}

constexpr DataFacts kFacts{.row = {RowBytes(0, ToySource::kBytesPerSample)}, .validation = true};

struct Reached {
  std::string losses, parameters;
  std::uint64_t evaluated = 0;
  friend auto operator<=>(const Reached&, const Reached&) = default;
};

// One run of a plan under the audit.
class ToyRun {
 public:
  ToyRun(const Config& config, const Plan& plan)
      : source_(kSamples, 10),
        model_(build_training_graph(config, kFacts, plan.decisions.micro_batch)),
        program_(lower(plan)),
        arena_(plan.arena, Bytes{1 << 20}),
        stores_(program_, plan, std::filesystem::temp_directory_path()),
        device_(arena_, stores_.all()),
        executor_(plan.graph, program_, device_, plan.threads, plan.decisions.loss_chunks),
        trainer_(config, model_, plan, executor_, {source_, &source_, "toy", {.samples = config.train.effective_batch}}),
        audit_(program_, plan.graph, device_, arena_.mapped()) {
    verify(program_, plan.graph);
    executor_.add_observer(audit_);
    trainer_.before_phase([this](Phase phase) { audit_.enter(phase); });
  }

  Trainer& trainer() { return trainer_; }
  Audit& audit() { return audit_; }
  std::vector<float> numbers(const std::string& name) const {
    std::vector<float> all;
    executor_.read(model_.graph.find(name), [&](std::span<const std::byte> part) {
      const std::span floats(reinterpret_cast<const float*>(part.data()), part.size() / sizeof(float));
      all.insert(all.end(), floats.begin(), floats.end());
    });
    return all;
  }

  Reached train(int updates) {
    Reached reached;
    for (int i = 0; i < updates; ++i)
      reached.losses += std::to_string(std::bit_cast<std::uint64_t>(trainer_.update().loss)) + " ";
    reached.evaluated = std::bit_cast<std::uint64_t>(trainer_.evaluate_now().loss);
    reached.parameters = trainer_.hash_parameters();
    return reached;
  }

 private:
  ToySource source_;
  TrainingGraph model_;
  Program program_;
  Arena arena_;
  Stores stores_;
  CpuDevice device_;
  Executor executor_;
  Trainer trainer_;
  Audit audit_;
};

const char* const kMean = "blocks.0.mean";
const char* const kMost = "numbers.most";

// No plan recomputes a statistic.
void expect_statistics_once(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (!node.op->replayable) EXPECT_FALSE(node.clone_of.valid()) << node.line.text();
  }
  for (const Value& value : graph.values) {
    if (value.parameter && value.parameter->kind == ParameterKind::statistic) EXPECT_EQ(value.tier, 0) << value.name.text();
  }
}

void trains_at_five_budgets(const std::string& more, const std::vector<Bytes>& beyond, std::size_t& with_disk) {
  const Config config = toy_config(more);
  PlanRequest request = plan_request(config);
  request.beyond = beyond;
  OpCatalogue catalogue = round_catalogue();
  const GraphSource graphs = [&](std::int64_t micro) { return build_training_graph(config, kFacts, micro).graph; };
  PlanSpace space(graphs, request, round_machine(), catalogue);
  constexpr std::int64_t kBudgets = 5;
  std::map<std::int64_t, std::set<Reached>> reached;  // by micro-batch
  for (std::int64_t i = 0; i < kBudgets; ++i) {
    const Bytes budget{space.floor().n + (space.ceiling().n - space.floor().n) * i / (kBudgets - 1)};
    const Plan plan = std::get<Plan>(space.best({budget, {}, {}}));
    EXPECT_LE(plan.process, budget);
    with_disk += plan.decisions.residency.active();
    expect_statistics_once(plan.graph);
    ToyRun run(config, plan);
    const ScratchFolder folder;
    run.trainer().load(nullptr);
    reached[plan.decisions.micro_batch].insert(run.train(kUpdates));
    const std::filesystem::path checkpoint = folder / "checkpoint";
    run.trainer().save_checkpoint_to(checkpoint);
    run.trainer().save_weights_to(folder / "weights");
    EXPECT_EQ(difference(plan, run.audit().phases()), "") << "budget " << i;
    for (const char* statistic : {kMean, kMost}) {
      EXPECT_NE(run.numbers(statistic), std::vector<float>(run.numbers(statistic).size(), 0)) << statistic;
      EXPECT_NE(SafetensorsFile::open(state_file(checkpoint)).find(statistic), nullptr);
    }

    // A training from the checkpoint continues like the run, and the weights are those of the run.
    const Reached later = run.train(1);
    ToyRun again(config, plan);
    again.trainer().load(&checkpoint);
    EXPECT_EQ(again.train(1), later);
    Config tuned = config;
    tuned.model.init = folder / "weights";
    tuned.model.config = read_model(tuned.model.init);
    EXPECT_EQ(tuned.model.config, config.model.config);
    ToyRun loaded(tuned, plan);
    loaded.trainer().load(nullptr);
    const std::uint64_t evaluated = std::bit_cast<std::uint64_t>(loaded.trainer().evaluate_now().loss);
    EXPECT_EQ(evaluated, reached[plan.decisions.micro_batch].begin()->evaluated);
  }
  for (const auto& [micro, all] : reached) EXPECT_EQ(all.size(), 1U) << "micro-batch " << micro;
}

TEST(ToyFamily, TrainsInMemory) {
  std::size_t with_disk = 0;
  trains_at_five_budgets("", {}, with_disk);
}

TEST(ToyFamily, TrainsWithADisk) {
  std::size_t with_disk = 0;
  trains_at_five_budgets("", {kGiB}, with_disk);
  EXPECT_GE(with_disk, 1U);
}

TEST(ToyFamily, TrainsIn16Bits) {
  std::size_t with_disk = 0;
  trains_at_five_budgets("[precision]\ncompute = 'bf16'\nparameters = 'bf16'\noptimizer_state = '8bit'\n", {}, with_disk);
}

// An evaluation reads statistics and does not change them. A mean of activations has rounding errors; inputs are exact.
TEST(ToyFamily, StatisticsDoNotShowHowAWindowIsCut) {
  std::vector<float> mean, most;
  for (const std::int64_t micro : {8, 2, 1}) {
    const Config config = toy_config("micro_batch = " + std::to_string(micro) + "\n");
    Planner planner(config, kFacts);
    const Plan plan = planner.plan(planner.space.ceiling());
    EXPECT_EQ(plan.decisions.micro_batch, micro);
    ToyRun run(config, plan);
    run.trainer().load(nullptr);
    run.trainer().update();
    run.trainer().update();
    const std::vector<float> own_mean = run.numbers(kMean), own_most = run.numbers(kMost);
    run.trainer().evaluate_now();
    EXPECT_EQ(run.numbers(kMean), own_mean);
    EXPECT_EQ(run.numbers(kMost), own_most);
    if (mean.empty()) mean = own_mean, most = own_most;
    for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(own_mean[i], mean[i], 1e-6) << i;
    EXPECT_EQ(own_most, most);
  }
}

// The averages of a run are saved as weights, and their statistics are averages as well. A checkpoint continues both.
TEST(ToyFamily, AveragesHaveStatisticsOfTheirOwn) {
  Config config = toy_config();
  config.optimizer.ema_half_life = Duration{2, ClockUnit::updates};
  Planner planner(config, kFacts);
  const Plan plan = planner.plan(planner.space.floor());
  const ScratchFolder folder;
  const std::filesystem::path checkpoint = folder / "checkpoint";
  ToyRun run(config, plan);
  run.trainer().load(nullptr);
  run.trainer().update();
  const std::string name = std::string(kMean) + ".ema";
  EXPECT_EQ(run.numbers(name), run.numbers(kMean));
  run.trainer().update();
  run.trainer().save_checkpoint_to(checkpoint);
  run.trainer().update();
  const std::vector<float> average = run.numbers(name);
  EXPECT_NE(average, run.numbers(kMean));
  EXPECT_FALSE(build_training_graph(config, kFacts, 1).graph.find(std::string(kMost) + ".ema").valid());

  run.trainer().save_weights_to(folder / "averages", {.averages = true});
  const SafetensorsFile saved = SafetensorsFile::open(folder / "averages/model.safetensors");
  ASSERT_NE(saved.find(kMean), nullptr);
  std::vector<float> stored(average.size());
  saved.read_into(*saved.find(kMean), std::as_writable_bytes(std::span(stored)));
  EXPECT_EQ(stored, average);

  ToyRun again(config, plan);
  again.trainer().load(&checkpoint);
  again.trainer().update();
  EXPECT_EQ(again.numbers(name), average);
  EXPECT_EQ(again.numbers(kMean), run.numbers(kMean));
}

TEST(ToyFamily, LearnsWhatItsLossesSay) {
  const Config config = toy_config();
  Planner planner(config, kFacts);
  const Plan plan = planner.plan(planner.space.ceiling());
  ToyRun run(config, plan);
  run.trainer().load(nullptr);
  const double first = run.trainer().update().loss;
  // Both heads begin by guessing: one loss counts fully, the other with its weight.
  EXPECT_NEAR(first, 1.3 * std::log(10.0), 0.2);
  double last = first;
  for (int i = 0; i < 60; ++i) last = run.trainer().update().loss;
  EXPECT_LT(last, first / 2);
}

TEST(ToyFamily, HasKeysOfItsOwn) {
  EXPECT_EQ(toy_config().model.config.as<ToyConfig>().blocks, 4);
  EXPECT_NE(resolved_toml(toy_config()).find("kind = \"toy\""), std::string::npos);
  EXPECT_ERROR(toy_config("[model.x]\n"), "E-CONFIG-KEY", "model.x");
  const ScratchFolder folder;
  const auto load = [&](const std::string& text) {
    write_raw(folder / "run.toml",
              "data.train = 'none.txt'\n[train]\neffective_batch = 1\n[optimizer]\nlearning_rate = 1e-3\n" + text);
    return load_config(folder / "run.toml");
  };
  EXPECT_ERROR(load("[model]\nkind = 'toy'\nheads = 4\nblocks = 1\nwidth = 8\nclasses = 2\n"), "E-CONFIG-KEY",
               "blocks, width, classes");
  EXPECT_ERROR(load("[model]\nkind = 'toy'\nblocks = 1\n"), "E-CONFIG-MISSING", "model.width, model.classes");
  EXPECT_ERROR(load("[model]\nkind = 'toi'\n"), "E-CONFIG-VALUE", "toy");
  EXPECT_ERROR(load("[model]\npreset = 'byte-3m'\nkind = 'toy'\n"), "E-CONFIG-CONFLICT", "gpt2");
  write_raw(folder / "config.json", "{\"model_type\": \"bert\"}");
  EXPECT_ERROR(read_model(folder.path()), "E-FORMAT-CONFIG",
               "\"gpt2\", \"llama\", \"mistral\", \"qwen2\", \"qwen3\", \"vit\", \"resnet\", \"mobilenet_v2\", \"toy\"");
}

}  // namespace
}  // namespace plimsoll
