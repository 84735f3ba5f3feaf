#include "config/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error_list.h"
#include "config/config_keys.h"
#include "config/small_config.h"
#include "device/machine_facts.h"
#include "formats/config_json.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "models/gpt2/gpt2.h"
#include "prepare/requests.h"

namespace plimsoll {
namespace {

std::string golden_folder(const char* name) { return std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden/" + name; }

TEST_F(ConfigTest, ReadsTheFileAndFillsDefaults) {
  const Config config = small();
  EXPECT_EQ(config.seed, 7);
  EXPECT_EQ(config.model.config.as<Gpt2Config>().layers, 2);
  EXPECT_EQ(config.model.config.as<Gpt2Config>().context, 32);
  EXPECT_EQ(config.model.context, 32);
  EXPECT_TRUE(config.model.config.as<Gpt2Config>().byte_vocabulary);
  EXPECT_EQ(config.data.train, folder_ / "text.txt");
  EXPECT_EQ(config.train.effective_batch, 100);
  EXPECT_FALSE(config.train.micro_batch);
  EXPECT_EQ(config.train.gradient_clip, 1.0);
  EXPECT_GT(config.threads, 0);
  EXPECT_TRUE(config.notes.empty());
}

TEST_F(ConfigTest, LaterOnesWin) {
  const Config config = small({"train.updates=5", "memory.budget=1GiB", "train.updates=6", "optimizer.learning_rate=2e-5",
                               "memory.budget=3GiB", "memory.host_memory=1KiB", "memory.disk=/tmp/there:5GB"});
  EXPECT_EQ(config.train.updates, 6);
  EXPECT_EQ(config.optimizer.learning_rate, 2e-5);
  EXPECT_EQ(config.memory.budget, Bytes{3LL << 30});
  EXPECT_EQ(config.memory.host_memory, Bytes{1024});
  EXPECT_EQ(config.memory.disk, (DiskBudget{"/tmp/there", Bytes{5000000000}}));
  const std::string text = std::string(kSmall) + "[memory]\nbudget = \"6GiB\"\nhost_memory = 123456789\n";
  EXPECT_EQ(load(text).memory.budget, Bytes{6LL << 30});
  EXPECT_EQ(load(text).memory.host_memory, Bytes{123456789});
}

TEST_F(ConfigTest, TypedValuesNeedNoQuotes) {
  const Config config = small({"data.train=2024", "optimizer.betas=[0.5, 0.25]", "schedule.warmup=10updates", "train.updates=1e3",
                               "model.dropout=.5", "train.micro_batch=auto", "data.validation="});
  EXPECT_EQ(config.data.train, std::filesystem::current_path() / "2024");
  EXPECT_EQ(config.optimizer.beta2, 0.25);
  EXPECT_EQ(config.train.updates, 1000);
  EXPECT_EQ(config.model.config.as<Gpt2Config>().attention_dropout, 0.5);
  EXPECT_EQ(config.schedule.warmup, (Duration{10, ClockUnit::updates}));
}

TEST_F(ConfigTest, KeysOverrideAPreset) {
  const Config config = load("data.train = 'a'\ntrain.effective_batch = 8\n[model]\npreset = 'gpt2'\nlayers = 3\ncontext = 64\n");
  EXPECT_EQ(config.model.config.as<Gpt2Config>().layers, 3);
  EXPECT_EQ(config.model.config.as<Gpt2Config>().context, 64);
  EXPECT_EQ(config.model.config.as<Gpt2Config>().width, 768);
}

TEST_F(ConfigTest, ShapeOfAFolder) {
  const std::string text =
      "data.train = 'a.bin'\ntrain.effective_batch = 8\n[model]\ninit = '" + golden_folder("gpt2_small") + "'\n";
  const Config config = load(text + "context = 16\ndropout = 0.0\n");
  EXPECT_EQ(config.model.context, 16);
  EXPECT_EQ(config.model.config.as<Gpt2Config>(), [&] {
    Gpt2Config shape = read_gpt2_config(ConfigReader(golden_folder("gpt2_small") + "/config.json"));
    shape.embedding_dropout = shape.attention_dropout = shape.residual_dropout = 0;
    return shape;
  }());
  EXPECT_ERROR(load(text + "layers = 2\n"), "E-CONFIG-INIT", "run.toml:5");
  EXPECT_ERROR(load(text + "context = 4096\n"), "E-CONFIG-INIT", "positions");
  EXPECT_ERROR(load(text + "preset = 'gpt2'\n"), "E-CONFIG-INIT", "gpt2");
  EXPECT_NO_THROW(load(text + "kind = 'gpt2'\n"));
  EXPECT_ERROR(load(text, {"model.init=/nowhere"}), "E-IO-MISSING", "/nowhere");
}

TEST_F(ConfigTest, CheckpointsComeByTimeOrByUpdates) {
  const auto every = [&](const std::string& value) { return small({"save.every=" + value}).save.every; };
  EXPECT_EQ(small().save.every, (SaveInterval{0, 600}));
  EXPECT_EQ(every("90s"), (SaveInterval{0, 90}));
  EXPECT_EQ(every("\"3min\""), (SaveInterval{0, 180}));
  EXPECT_EQ(every("2h"), (SaveInterval{0, 7200}));
  EXPECT_EQ(every("20"), (SaveInterval{20, 0}));
  EXPECT_EQ(every("0"), (SaveInterval{0, 0}));
  for (const char* text : {"10m", "90s", "2h", "20", "0"}) {
    const Config config = small({std::string("save.every=") + text});
    EXPECT_EQ(load(resolved_toml(config)), config) << text;
  }
  EXPECT_ERROR(every("often"), "E-CONFIG-TYPE", "10m");
  EXPECT_ERROR(every("10y"), "E-CONFIG-TYPE", "number of updates");
  EXPECT_ERROR(every("0m"), "E-CONFIG-RANGE", "1s");
  EXPECT_ERROR(every("-1"), "E-CONFIG-RANGE", "save.every");
}

TEST_F(ConfigTest, EvaluationsDecideIfThereAreSome) {
  const std::vector<std::string> evaluates{"data.validation=v.txt", "train.updates=100", "train.evaluate_every=10"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = evaluates;
    all.insert(all.end(), more.begin(), more.end());
    return small(all);
  };
  const Config config = with({"stop.patience=20%", "stop.min_delta=0.01"});
  EXPECT_EQ(config.stop, (StopSettings{{20, ClockUnit::updates}, 0.01, StopMetric::loss}));
  EXPECT_TRUE(keeps_best_weights(config));
  EXPECT_FALSE(keeps_best_weights(with({"save.best_weights=false"})));
  EXPECT_FALSE(keeps_best_weights(with({"train.evaluate_every=0"})));
  EXPECT_EQ(load(resolved_toml(config)), config);
  EXPECT_EQ(with({"train.evaluate_every=5%"}).train.evaluate_every, (Duration{5, ClockUnit::updates}));
  const Config by_samples = with({"train.evaluate_every=30samples"});
  EXPECT_EQ(by_samples.train.evaluate_every, (Duration{30, ClockUnit::samples}));
  EXPECT_EQ(evaluation_interval(by_samples), (30 + by_samples.train.effective_batch - 1) / by_samples.train.effective_batch);

  EXPECT_ERROR(small({"stop.patience=5"}), "E-CONFIG-MISSING", "data.validation");
  EXPECT_ERROR(small({"data.validation=v.txt", "stop.patience=5"}), "E-CONFIG-MISSING", "train.evaluate_every");
  EXPECT_ERROR(with({"stop.patience=9"}), "E-CONFIG-RANGE", "10updates");
  EXPECT_ERROR(with({"stop.min_delta=0.1"}), "E-CONFIG-CONFLICT", "stop.patience");
  EXPECT_ERROR(with({"stop.metric=accuracy"}), "E-CONFIG-CONFLICT", "classes");

  const Config plateau = with({"schedule.name=plateau"});
  EXPECT_EQ(plateau.schedule.patience, (Duration{10, ClockUnit::updates}));
  EXPECT_EQ(plateau.schedule.factor, 0.1);
  EXPECT_EQ(load(resolved_toml(plateau)), plateau);
  EXPECT_ERROR(small({"schedule.name=plateau"}), "E-CONFIG-MISSING", "data.validation");
  EXPECT_ERROR(with({"schedule.name=plateau", "schedule.patience=5"}), "E-CONFIG-RANGE", "schedule.patience");
  EXPECT_ERROR(with({"schedule.patience=20"}), "E-CONFIG-CONFLICT", "schedule.patience");
}

TEST_F(ConfigTest, ResolvedTextReadsBackEqual) {
  const std::string init =
      "[model]\ninit = '" + golden_folder("gpt2_small") + "'\n[data]\ntrain = 'x \\ü'\n[train]\neffective_batch = 6\n";
  const std::vector<Config> configs{
      small(),
      small({"train.micro_batch=20", "schedule.name=cosine", "schedule.warmup=1Mtokens",
             "optimizer.learning_rate=0.1234567890123"}),
      small({"optimizer.name=sgd", "optimizer.momentum=0.9", "optimizer.nesterov=true", "optimizer.decay=all",
             "plan.recompute=all", "plan.loss_chunks=4", "data.train=a\"b\\c", "machine.threads=3", "memory.budget=1.5GiB",
             "memory.host_memory=1", "memory.disk=/a:b:7KiB"}),
      load(init), load("[model]\npreset='gpt2'\n[data]\ntrain='t'\nvocabulary='v'\n[train]\neffective_batch=8\n")};
  for (const Config& config : configs) {
    const Config again = load(resolved_toml(config));
    EXPECT_EQ(again, config) << resolved_toml(config);
    EXPECT_EQ(resolved_toml(again), resolved_toml(config));
    EXPECT_EQ(config_hash(again), config_hash(config));
  }
  EXPECT_NE(config_hash(configs[0]), config_hash(configs[1]));
}

struct BadInput {
  const char* line;  // replaces kSmall where it holds a line end, else goes to --set
  const char* code;
  const char* fragment;
};

const BadInput kBad[] = {
    {"model.layrs=2", "E-CONFIG-KEY", "model.layers"},
    {"modle.layers=2", "E-CONFIG-KEY", "model.layers"},
    {"optimizer.dropout=0", "E-CONFIG-KEY", "model.dropout"},
    {"zebra=2", "E-CONFIG-KEY", "zebra"},
    {"a.b.c.d=2", "E-CONFIG-KEY", "a.b.c.d"},
    {"model.layers.x=2", "E-CONFIG-KEY", "model.layers"},
    {"train.batch_size=2", "E-CONFIG-KEY", "effective_batch"},
    {"train.lerning_rate=2", "E-CONFIG-KEY", "optimizer.learning_rate"},
    {"\n[modell]\n", "E-CONFIG-KEY", "run.toml:2"},
    {"\n\n[train]\nupdate = 5\n", "E-CONFIG-KEY", "run.toml:4"},
    {"\n[[train]]\nupdates = 5\n", "E-CONFIG-TYPE", "section"},
    {"model=3", "E-CONFIG-TYPE", "[model]"},
    {"seed=\"x\"", "E-CONFIG-TYPE", "the text \"x\""},
    {"seed=true", "E-CONFIG-TYPE", "a whole number"},
    {"train.updates=1.5", "E-CONFIG-TYPE", "whole number"},
    {"train.updates=[1]", "E-CONFIG-TYPE", "a list of 1 numbers"},
    {"train.updates={a=1}", "E-CONFIG-TYPE", "a table"},
    {"train.updates=1979-05-27", "E-CONFIG-TYPE", "a date"},
    {"\n[optimizer]\nlearning_rate = '2e-5'\n", "E-CONFIG-TYPE", "without quotes"},
    {"\n[train]\nmicro_batch = 'many'\n", "E-CONFIG-TYPE", "\"auto\" or"},
    {"\n[data]\ntrain = 5\n", "E-CONFIG-TYPE", "text in quotes"},
    {"\n[data]\ntrain = \"a\\u0000b\"\n", "E-CONFIG-TYPE", "zero byte"},
    {"optimizer.betas=[0.9]", "E-CONFIG-TYPE", "2 numbers"},
    {"optimizer.betas=[0.9, 'x']", "E-CONFIG-TYPE", "2 numbers"},
    {"optimizer.nesterov=1", "E-CONFIG-TYPE", "true or false"},
    {"memory.disk=20GiB", "E-CONFIG-TYPE", "/scratch:20GiB"},
    {"optimizer.betas=[0.9, 1.0]", "E-CONFIG-RANGE", "below 1"},
    {"model.dropout=1", "E-CONFIG-RANGE", "below 1"},
    {"model.dropout=nan", "E-CONFIG-RANGE", "nan"},
    {"optimizer.learning_rate=inf", "E-CONFIG-RANGE", "inf"},
    {"optimizer.learning_rate=-1e-3", "E-CONFIG-RANGE", "-0.001"},
    {"model.layers=0", "E-CONFIG-RANGE", "from 1 to 4096"},
    {"model.width=-64", "E-CONFIG-RANGE", "model.width"},
    {"model.vocab=9223372036854775807", "E-CONFIG-RANGE", "from 2 to 16777216"},
    {"model.context=1e30", "E-CONFIG-RANGE", "model.context"},
    {"train.micro_batch=0", "E-CONFIG-RANGE", "from 1"},
    {"machine.threads=100000", "E-CONFIG-RANGE", "1024"},
    {"seed=-1", "E-CONFIG-RANGE", "seed"},
    {"memory.budget=-5", "E-CONFIG-SIZE", "negative"},
    {"memory.budget=2XB", "E-CONFIG-SIZE", "memory.budget"},
    {"memory.budget=lots", "E-CONFIG-SIZE", "lots"},
    {"memory.budget=1e40", "E-CONFIG-SIZE", "4 EiB"},
    {"memory.budget=0.5", "E-CONFIG-SIZE", "less than one byte"},
    {"model.heads=7", "E-CONFIG-HEADS", "4 or 8"},
    {"model.preset=gpt5", "E-CONFIG-PRESET", "gpt2-xl"},
    {"model.kind=bert", "E-CONFIG-VALUE", "gpt2"},
    {"data.format=byte", "E-CONFIG-VALUE", "\"bytes\""},
    {"optimizer.name=adam", "E-CONFIG-VALUE", "\"adamw\""},
    {"schedule.warmup=5epochs", "E-CONFIG-VALUE", "unit"},
    {"schedule.warmup=-5updates", "E-CONFIG-RANGE", "negative"},
    {"schedule.warmup=0.5samples", "E-CONFIG-VALUE", "whole"},
    {"precision.compute=fp8", "E-CONFIG-PRECISION", "bf16"},
    {"precision.optimizer_state=fp16", "E-CONFIG-PRECISION", "bf16"},
    {"precision.loss_scale=1024", "E-CONFIG-CONFLICT", "needs no scale"},
    {"precision.allow=[\"fp32\"]", "E-CONFIG-CONFLICT", "auto"},
    {"precision.allow=[\"fp8\"]", "E-CONFIG-PRECISION", "bf16"},
    {"precision.allow=[]", "E-CONFIG-TYPE", "list"},
    {"precision.gradients=fp16", "E-CONFIG-PRECISION", "bf16"},
    {"precision.loss_scale_growth=10updates", "E-CONFIG-CONFLICT", "needs no scale"},
    {"data.train=", "E-CONFIG-MISSING", "data.train"},
    {"train.effective_batch=auto", "E-CONFIG-MISSING", "effective_batch"},
    {"\n[data]\ntrain = 'x'\n[train]\neffective_batch = 1\n", "E-CONFIG-MISSING", "model.layers, model.width"},
    {"\n", "E-CONFIG-MISSING", "data.train"},
    {"\nx = = 2\n", "E-CONFIG-SYNTAX", "run.toml:2:5"},
    {"\nseed = 1\nseed = 2\n", "E-CONFIG-SYNTAX", "run.toml:3"},
    {"\n\xff\n", "E-CONFIG-SYNTAX", "utf-8"},
    {"\n[train]\naccumulation = 2\ngradient_accumulation_steps = 4\n", "E-CONFIG-TWICE", "run.toml:4"},
    {"\nlr = 1e-3\n[optimizer]\nlearning_rate = 2e-3\n", "E-CONFIG-TWICE", "optimizer.learning_rate"},
    {"train.micro_batch=16", "E-BATCH-3",
     "effective_batch=100 cannot be 16 x accumulation. Nearest: 96 (k=6) or 112 (k=7); or micro_batch=20 (k=5)."},
    {"no-equals-sign", "E-CONFIG-SET", "no-equals-sign"},
    {"=5", "E-CONFIG-SET", "equals"},
};

TEST_F(ConfigTest, BadInputIsNamed) {
  for (const BadInput& bad : kBad) {
    SCOPED_TRACE(bad.line);
    const bool whole_file = std::string_view(bad.line).find('\n') != std::string_view::npos;
    if (whole_file) {
      EXPECT_ERROR(load(bad.line), bad.code, bad.fragment);
    } else {
      EXPECT_ERROR(small({bad.line}), bad.code, bad.fragment);
    }
  }
}

TEST_F(ConfigTest, EveryMistakeIsExitTwo) {
  for (const BadInput& bad : kBad) {
    try {
      small({bad.line});
    } catch (const Error& error) {
      EXPECT_EQ(error.exit, ExitCode::configuration) << error.what();
    }
  }
}

TEST_F(ConfigTest, MissingFiles) {
  EXPECT_ERROR(load_config(folder_ / "none.toml"), "E-CONFIG-FILE", "none.toml");
  EXPECT_ERROR(load_config(folder_.path()), "E-CONFIG-FILE", "folder");
  EXPECT_ERROR(load(std::string(2 << 20, '#')), "E-CONFIG-FILE", "run.toml");
}

TEST_F(ConfigTest, ProductsOfSizesStayFarFromOverflow) {
  EXPECT_ERROR(small({"model.layers=4096", "model.width=1048576"}), "E-CONFIG-RANGE", "parameters");
  EXPECT_ERROR(small({"model.context=16777216", "train.effective_batch=16777216"}), "E-CONFIG-RANGE", "values");
  EXPECT_ERROR(small({"train.updates=68719476736", "train.effective_batch=16777216"}), "E-CONFIG-RANGE", "tokens in a run");
}

TEST_F(ConfigTest, NestingDoesNotExhaustTheStack) {
  EXPECT_ERROR(load("x = " + std::string(100000, '[')), "E-CONFIG-SYNTAX", "run.toml:1");
}

TEST_F(ConfigTest, InjectedLinesAreText) { EXPECT_EQ(small({"data.train=1\nseed = 9"}).seed, 7); }

TEST_F(ConfigTest, AutoTakesAPrecisionThatIsAllowedAndSaysWhich) {
  const Config either = small({"precision.compute=auto"});
  EXPECT_EQ(either.precision.compute, multiplies_bf16() ? DType::bf16 : DType::f32);
  EXPECT_TRUE(has_note(either, "auto stands for"));
  const Config gpu = small({"precision.compute=auto", "machine.device=cuda", "machine.unverified=true"}, {false, "no"});
  EXPECT_EQ(gpu.precision.compute, DType::bf16);
  const std::vector<std::string> sets{"precision.compute=auto"};
  for (const bool fast : {false, true}) {
    const Config elsewhere = small(sets, {fast, "so it is"});
    EXPECT_EQ(elsewhere.precision.compute, fast ? DType::bf16 : DType::f32);
    EXPECT_TRUE(has_note(elsewhere, "so it is"));
  }
  EXPECT_EQ(small({"precision.compute=auto", "precision.allow=[\"fp32\"]"}).precision.compute, DType::f32);
  EXPECT_EQ(small({"precision.allow=[\"bf16\"]", "precision.compute=auto"}).precision.compute, DType::bf16);
  EXPECT_EQ(small({"precision.compute=auto", "precision.allow=[\"fp16\"]"}).precision.compute, DType::f16);
  const std::string resolved = resolved_toml(either);
  EXPECT_EQ(resolved.find("auto\"\nallow"), std::string::npos);
  EXPECT_NE(resolved.find(std::string("compute = \"") + std::string(precision_name(either.precision.compute))),
            std::string::npos);
}

TEST_F(ConfigTest, AllFaultsAreToldAndNoneThatFollowsFromAnother) {
  try {
    small({"model.heads=7", "seed=x", "trian.accumulation=3", "optimizer.half_lives=[1, 2]", "train.micro_batch=16"});
    ADD_FAILURE() << "no error";
  } catch (const ErrorList& errors) {
    std::vector<std::string> codes{errors.code};
    for (const Error& other : errors.others) codes.push_back(other.code);
    EXPECT_EQ(codes, (std::vector<std::string>{"E-CONFIG-KEY", "E-CONFIG-TYPE", "E-CONFIG-TYPE", "E-CONFIG-HEADS"}));
  }
}

TEST_F(ConfigTest, SchedulesAreCompletedAndTakeOnlyWhatIsTheirs) {
  const Config cycle = small({"schedule.name=one_cycle"});
  EXPECT_EQ(cycle.schedule.momentum, (std::array{0.95, 0.85}));
  EXPECT_EQ(momentum_at(cycle, 0), 0.95);
  EXPECT_DOUBLE_EQ(cycle.schedule.final_fraction, 4e-6);
  EXPECT_EQ(resolved_toml(cycle).find("decay_shape"), std::string::npos) << "of other schedules";
  for (const char* said : {"schedule.momentum_range=none", "optimizer.betas=[0.9, 0.95]"}) {
    const Config still = small({"schedule.name=one_cycle", said});
    EXPECT_EQ(momentum_at(still, 0), 0.9) << said;
  }
  EXPECT_FALSE(small({"schedule.name=one_cycle", "optimizer.name=sgd"}).schedule.momentum);
  EXPECT_ERROR(small({"schedule.name=triangular", "optimizer.name=sgd", "schedule.momentum_range=[0.9, 0.8]"}),
               "E-CONFIG-CONFLICT", "there is no momentum");
  EXPECT_EQ(small({"schedule.name=wsd", "train.updates=50"}).schedule.decay, (Duration{1000, ClockUnit::samples}));
  EXPECT_EQ(small({"schedule.name=cosine_restarts", "schedule.cycle=640samples"}).schedule.cycle,
            (Duration{640, ClockUnit::samples}));
  EXPECT_ERROR(small({"schedule.name=triangular", "schedule.cycle=1updates"}), "E-CONFIG-RANGE", "two updates");
  EXPECT_ERROR(small({"schedule.name=cosine", "schedule.decay_length=5%"}), "E-CONFIG-CONFLICT", "has no such key");
  EXPECT_TRUE(has_note(small({"schedule.name=wsd", "schedule.decay_length=100%"}), "never stable"));
  EXPECT_EQ(small({"lr_scheduler_type=constant_with_warmup"}).schedule.kind, ScheduleKind::constant);
}

// The last of the default cycles ends with the run, with a warm-up too.
TEST_F(ConfigTest, UsualCyclesFillTheRun) {
  const Config config = small({"schedule.name=cosine_restarts", "train.updates=100", "schedule.warmup=20updates"});
  EXPECT_EQ(config.schedule.cycle, (Duration{2000, ClockUnit::samples}));  // of 100 an update
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 100 * 80), config.optimizer.learning_rate);
  EXPECT_LT(learning_rate_at(config, 100 * 99), 0.01 * config.optimizer.learning_rate);
}

// The command line's schedule drops keys of the file's schedule. Keys of two schedules in the file contradict each other.
TEST_F(ConfigTest, TheCommandLineWinsOverOtherChoicesOfTheFile) {
  const std::string file = std::string(kSmall) + "[schedule]\nname = \"triangular\"\ncycle = \"10updates\"\n" +
                           "[optimizer]\nhalf_lives = [\"200samples\", \"400samples\"]\n";
  const Config config = load(file, {"schedule.name=cosine", "optimizer.betas=[0.5, 0.6]"});
  EXPECT_EQ(config.schedule.kind, ScheduleKind::cosine);
  EXPECT_TRUE(has_note(config, "left aside"));
  EXPECT_EQ(config.optimizer.beta1, 0.5);
  EXPECT_FALSE(config.optimizer.half_lives);
  EXPECT_ERROR(load("cycle = \"20updates\"\n" + file), "E-CONFIG-TWICE", "cycle");
  // A dropped key has no effect.
  const Config larger = load(file, {"schedule.name=cosine", "train.effective_batch=1000"});
  EXPECT_EQ(load(resolved_toml(larger)), larger);
  const Config clipped = load(std::string(kSmall) + "gradient_clip = 1.0\n", {"train.gradient_clip_value=0.5"});
  EXPECT_EQ(clipped.train.gradient_clip, 0);
  const std::string by_value = std::string(kSmall) + "gradient_clip_value = 0.5\n";
  EXPECT_EQ(load(by_value, {"train.gradient_clip=2"}).train.gradient_clip_value, 0);
  EXPECT_EQ(load(by_value, {"train.gradient_clip=0"}).train.gradient_clip_value, 0.5);
}

TEST_F(ConfigTest, SchedulesAndOptimizersReadBackEqual) {
  const std::vector<std::vector<std::string>> all{
      {"schedule.name=cosine_restarts", "schedule.cycle_growth=2", "optimizer.name=lion", "optimizer.decay=no_embeddings"},
      {"schedule.name=triangular", "schedule.cycle=640samples", "schedule.momentum_range=[0.9, 0.8]"},
      {"schedule.name=triangular2", "optimizer.half_lives=[\"200samples\", \"4updates\"]"},
      {"schedule.name=one_cycle", "schedule.start_fraction=0.1", "schedule.peak_at=0.4", "train.gradient_clip_value=0.5"},
      {"schedule.name=one_cycle", "schedule.momentum_range=none"},
      {"schedule.name=wsd", "schedule.decay_length=10%", "schedule.decay_shape=linear"},
      {"schedule.name=polynomial", "schedule.power=2"},
      {"label_smoothing_factor=0.1", "train.z_loss=1e-4", "optimizer.ema_half_life=500samples"}};
  for (const std::vector<std::string>& sets : all) {
    const Config config = small(sets);
    EXPECT_EQ(load(resolved_toml(config)), config) << resolved_toml(config);
  }
}

TEST_F(ConfigTest, HalfLivesGiveTheBetasOfTheBatch) {
  const std::vector<std::string> lives{"optimizer.half_lives=[\"200samples\", \"4updates\"]"};
  const Config config = small(lives);  // 100 samples an update
  EXPECT_DOUBLE_EQ(config.optimizer.beta1, std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(config.optimizer.beta2, std::pow(0.5, 0.25));
  EXPECT_NE(resolved_toml(config).find("half_lives = [\"200samples\", \"4updates\"]"), std::string::npos);
  EXPECT_EQ(resolved_toml(config).find("betas"), std::string::npos);
  EXPECT_ERROR(small({lives[0], "optimizer.betas=[0.9, 0.99]"}), "E-CONFIG-CONFLICT", "both given");
  EXPECT_ERROR(small({lives[0], "optimizer.name=sgd"}), "E-CONFIG-CONFLICT", "sgd has no betas");
  EXPECT_ERROR(small({"optimizer.half_lives=[\"1Mupdates\", \"1updates\"]"}), "E-CONFIG-RANGE", "693,000");
  EXPECT_ERROR(small({"optimizer.half_lives=[\"0samples\", \"4updates\"]"}), "E-CONFIG-RANGE", "a half-life is 0 updates");
  EXPECT_ERROR(small({"optimizer.half_lives=[1, 2]"}), "E-CONFIG-TYPE", "two lengths");
}

TEST_F(ConfigTest, AveragesOfTheWeights) {
  EXPECT_EQ(optimizer_settings(small({})).average_blend, 0);
  EXPECT_DOUBLE_EQ(optimizer_settings(small({"optimizer.ema_half_life=2updates"})).average_blend, 1 - std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(optimizer_settings(small({"optimizer.ema_half_life=100samples"})).average_blend, 0.5);
  EXPECT_EQ(optimizer_settings(small({"optimizer.ema_half_life=none"})).average_blend, 0);
  EXPECT_ERROR(small({"optimizer.ema_half_life=0updates"}), "E-CONFIG-RANGE", "is 0");
}

TEST_F(ConfigTest, LionAndClippingByValue) {
  const Config lion = small({"optimizer.name=lion"});
  EXPECT_EQ(optimizer_settings(lion).kind, OptimizerSettings::Kind::lion);
  EXPECT_EQ(lion.optimizer.learning_rate, 1e-4);
  EXPECT_EQ(lion.optimizer.beta2, 0.99);
  EXPECT_EQ(momentum_at(lion, 0), 0.9);
  const Config clipped = small({"train.gradient_clip_value=0.5"});
  EXPECT_EQ(optimizer_settings(clipped).clip, 0);
  EXPECT_EQ(optimizer_settings(clipped).clip_value, 0.5);
  EXPECT_EQ(small({"train.gradient_clip_value=0.5", "train.gradient_clip=0"}).train.gradient_clip_value, 0.5);
  EXPECT_ERROR(small({"train.gradient_clip_value=0.5", "train.gradient_clip=1"}), "E-CONFIG-CONFLICT",
               "by their norm and by value");
}

TEST_F(ConfigTest, DoubtfulChoicesAreNoted) {
  EXPECT_TRUE(has_note(small({"schedule.warmup=200updates"}), "never reached"));
  EXPECT_TRUE(has_note(small({"optimizer.learning_rate=5e5"}), "far too high for adamw"));
  EXPECT_TRUE(has_note(small({"optimizer.nesterov=true"}), "not used"));
  EXPECT_TRUE(has_note(small({"memory.budget=512"}), "did you mean 512MiB?"));
  EXPECT_TRUE(small({"memory.budget=512KiB"}).notes.empty());
  EXPECT_TRUE(has_note(small({"model.vocab=50257"}), "read as bytes"));
  EXPECT_TRUE(has_note(small({"train.effective_batch=auto", "train.micro_batch=4"}), "one micro-batch of 4"));
}

TEST_F(ConfigTest, RequestsCarryTheSettings) {
  const Config config =
      small({"optimizer.name=sgd", "train.gradient_clip=0", "plan.loss_chunks=3", "train.micro_batch=20", "memory.budget=1MiB"});
  EXPECT_EQ(optimizer_settings(config).kind, OptimizerSettings::Kind::sgd);
  EXPECT_EQ(optimizer_settings(config).clip, 0);
  EXPECT_EQ(plan_request(config).loss_chunks, 3);
  EXPECT_EQ(plan_request(config).micro_batch, 20);
  EXPECT_EQ(plan_request(config).units_per_sample, 32);
  EXPECT_EQ(plan_budget(config).memory, kMiB);
}

TEST_F(ConfigTest, DiskFolderIsCreatedBesideItsParent) {
  create_disk_folder({folder_ / "new", kMiB});
  create_disk_folder({folder_ / "new", kMiB});
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "new"));
  EXPECT_ERROR(create_disk_folder({folder_ / "no/new", kMiB}), "E-DISK-FOLDER", "no/new");
}

TEST_F(ConfigTest, DotsAreCountedOutsideOfTextAndPerKey) {
  const std::string dots = "a.b.c.d.e.f.g.h.i.j.k.l";
  std::string text = kSmall;
  text.replace(text.find("text.txt"), 8, dots);
  EXPECT_EQ(load(text + "# " + dots + "[[[[[[[[[[[[\n").data.train, folder_ / dots);
  EXPECT_EQ(small({"data.train=" + dots}).data.train.names.at(0).filename(), dots);
  EXPECT_EQ(small({"data.train=\"x\"\ny" + std::string(20, '.') + "=1"}).data.train.names.at(0).native().find("\"x\"") ==
                std::string::npos,
            false);
  EXPECT_NO_THROW(load(std::string(kSmall) + "[optimizer]\nbetas = [0.9, 0.95]\n"));
  const std::string several = "\"\"\"\n" + dots + "\\\"\"\"\"";
  EXPECT_ERROR(load(std::string(kSmall) + "[schedule]\nname = " + several + "\n"), "E-CONFIG-VALUE", "schedule.name");
  EXPECT_ERROR(load(std::string(kSmall) + "\n" + dots + " = 1\n"), "E-CONFIG-SYNTAX", "run.toml:14");
  EXPECT_ERROR(load(std::string(kSmall) + "x = '" + dots + "\n" + dots + " = 1\n"), "E-CONFIG-SYNTAX", "run.toml:14");
  EXPECT_ERROR(load("x = " + std::string(1000, '[')), "E-CONFIG-SYNTAX", "deeper");
}

TEST_F(ConfigTest, BudgetsMayBeAutomatic) { EXPECT_EQ(small({"memory.budget=auto"}).memory.budget, std::nullopt); }

TEST_F(ConfigTest, PathsAreUtf8) {
  EXPECT_ERROR(small({"data.train=caf\xe9.txt"}), "E-CONFIG-VALUE", "data.train");
  EXPECT_ERROR(small({"memory.disk=caf\xe9:1GiB"}), "E-CONFIG-VALUE", "memory.disk");
  EXPECT_EQ(small({"data.train=caf\xc3\xa9.txt"}).data.train.names.at(0).filename(), "caf\xc3\xa9.txt");
}

}  // namespace
}  // namespace plimsoll
