// Images train from published files to an evaluation, with a model that does nothing but look at pixels: the data reach the
// trainer through configuration and planning like tokens do, and the split of a batch changes no pixel.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/config_keys.h"
#include "data/image_files.h"
#include "formats/config_json.h"
#include "formats/expect_error.h"
#include "graph/builder.h"
#include "models/all.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape_ops.h"
#include "prepare/solve_keys.h"
#include "run/session.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kSize = 8, kClasses = 10, kImages = 60;

struct PixelConfig {
  std::int64_t width = 32, channels = 3;

  friend bool operator==(const PixelConfig&, const PixelConfig&) = default;
  template <class V>
  void fields(V&& v) const {
    v("width", width), v("channels", channels);
  }
};

extern const Family kPixels;

const PixelConfig& of(const ModelConfig& config) { return config.as<PixelConfig>(); }

ModelGraph build(const ModelConfig& config, const BatchShape& shape, const BuildOptions&) {
  ModelGraph model;
  GraphBuilder builder(model.graph);
  const std::int64_t values = shape.image_size * shape.image_size * of(config).channels, width = of(config).width;
  constexpr Initializer kNormal{Initializer::Kind::normal, 0.05}, kZeros{};
  const ValueId up = builder.add_parameter("up.weight", {values, width}, kNormal);
  const ValueId up_bias = builder.add_parameter("up.bias", Shape{width}, kZeros);
  const ValueId head = builder.add_parameter("head.weight", {width, kClasses}, kNormal);
  const ValueId head_bias = builder.add_parameter("head.bias", Shape{kClasses}, kZeros);
  const auto pass = [&](Section section, std::int64_t batch, const std::string& prefix) {
    builder.set_section(section);
    Pass pass{.section = section, .inputs = {}, .losses = {}, .results = {}};
    const auto field = [&](const char* name, ValueType type) {
      pass.inputs.push_back({name, Scope::pass, builder.add_input(prefix + "." + name, std::move(type))});
      return pass.inputs.back().value;
    };
    const ValueId pixels = field("pixels", {DType::f32, {batch, shape.image_size, shape.image_size, of(config).channels}});
    const ValueId targets = field("targets", {DType::i32, {batch, 1}});
    field("sample_ids", {DType::u32, {batch, 2}});
    const ValueId row = ops::reshape(builder, pixels, {batch, 1, values}, "row");
    const ValueId hidden = ops::gelu(builder, ops::linear(builder, row, up, up_bias, "up"), "gelu");
    LossTerm term;
    term.scale = builder.add_input(prefix + ".scale", {DType::f32, Shape{1}});
    term.losses = ops::cross_entropy(builder, ops::linear(builder, hidden, head, head_bias, "logits"), targets, term.scale);
    if (section != Section::micro) {
      term.total = builder.add_persistent(prefix + ".total", {DType::f64, Shape{1}}, Role::output);
      builder.add1(ops::kSumLosses, ops::NoAttributes{}, {term.losses, term.total}, "total");
    }
    pass.losses.push_back(std::move(term));
    return pass;
  };
  if (shape.evaluate > 0) {
    model.passes.push_back(pass(builder.begin_forward({"evaluate", /*sums=*/true}), shape.evaluate, "evaluate"));
  }
  if (shape.micro > 0) model.passes.push_back(pass(Section::micro, shape.micro, "batch"));
  sort_sections(model.graph);
  return model;
}

ModelConfig set_width(const ModelConfig& config, const Setting& setting) {
  return config.with<PixelConfig>([&](PixelConfig& c) { c.width = whole(setting, 1, 1 << 16); });
}

std::span<const ModelKey> keys() {
  static const std::array kKeys{ModelKey{.name = "width",
                                         .size = true,
                                         .comment = "of the hidden layer",
                                         .example = "32",
                                         .set = set_width,
                                         .text = [](const ModelConfig& config) { return toml_text(of(config).width); },
                                         .step = [](const ModelConfig&) { return std::int64_t{16}; }}};
  return kKeys;
}

const Family kPixels{.kind = "pixels",
                     .title = "Pixels",
                     .defaults = [] { return ModelConfig(kPixels, PixelConfig{}); },
                     .keys = keys,
                     .read = [](const ConfigReader&) { return ModelConfig(kPixels, PixelConfig{}); },
                     .write = [](const ModelConfig&, const std::filesystem::path&) {},
                     .build = build,
                     .stored = [](const ModelConfig&, std::string_view name) { return std::vector{std::string(name)}; },
                     .ignored = [](std::string_view) { return false; },
                     .facts =
                         [](const ModelConfig& config) {
                           return ModelFacts{.positions = 1,
                                             .classes = kClasses,
                                             .channels = of(config).channels,
                                             .chance_loss = std::log(static_cast<double>(kClasses))};
                         },
                     .describe = [](const ModelConfig&) { return std::string("pixels"); }};

const bool added = (add_family(kPixels), true);

class ImageTraining : public testing::Test {
 protected:
  ImageTraining() {
    // Rows that are brighter than others tell the class.
    std::string images = idx_header({kImages, kSize, kSize});
    for (std::int64_t i = 0; i < kImages; ++i) {
      for (std::int64_t at = 0; at < kSize * kSize; ++at) {
        images += static_cast<char>(at % kSize == i % kClasses || at / kSize == i % kClasses ? 200 + i : (i * at) % 50);
      }
    }
    write_raw(folder / "images.gz", gzipped(images));
    write_raw(folder / "labels", idx_labels(kImages, kClasses));
  }
  Config config(const std::string& more = {}, const std::string& data = "validation = '30%'\n") const {
    write_raw(folder / "run.toml",
              "[model]\nkind = 'pixels'\n[data]\nformat = 'idx'\ntrain = 'images.gz'\nlabels = 'labels'\n" + data +
                  "[optimizer]\nlearning_rate = 1e-2\n[machine]\nthreads = 2\n[train]\neffective_batch = 6\n" + more);
    return load_config(folder / "run.toml");
  }
  DataFiles data(const Config& config) const { return open_data(config, folder / "cache"); }
  static Plan plan(const Config& config, const DataFiles& files, std::int64_t micro) {
    return plan_with(config, micro, {BlockMode::keep}, 1, facts_of(config, files, {}));
  }
  static std::vector<double> losses(const Config& config, std::int64_t micro, const DataFiles& files, int updates) {
    const Plan made = plan(config, files, micro);
    Session session(config, made, files);
    session.trainer().load(nullptr);
    std::vector<double> all;
    for (int i = 0; i < updates; ++i) all.push_back(session.trainer().update().loss);
    all.push_back(session.trainer().evaluate_now().loss);
    return all;
  }

  ScratchFolder folder;
};

TEST_F(ImageTraining, LearnsAndEvaluates) {
  const Config config = this->config();
  const DataFiles files = data(config);
  ASSERT_NE(files.validation, nullptr);
  const std::vector<double> all = losses(config, 3, files, 80);
  EXPECT_NEAR(all.front(), std::log(static_cast<double>(kClasses)), 0.5);
  EXPECT_LT(all[79], all.front() / 4);
  EXPECT_LT(all.back(), all.front() / 2) << "held-out images";
}

TEST_F(ImageTraining, CropsAndFlipsDoNotShowHowABatchIsCut) {
  const Config config = this->config("[image]\npad_crop = 2\nflip = true\nmean = 0.3\nstd = [0.2, 0.3, 0.4]\n");
  const DataFiles files = data(config);
  const std::vector<double> whole = losses(config, 6, files, 20);
  for (const std::int64_t micro : {1, 2, 3}) {
    const std::vector<double> parts = losses(config, micro, files, 20);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-4 * whole[i]) << micro << " " << i;
  }
  const std::vector<double> plain = losses(this->config(), 6, data(this->config()), 20);
  EXPECT_NE(plain[0], whole[0]);
}

TEST_F(ImageTraining, TouchesThePlannedBytes) {
  const Config config = this->config();
  const DataFiles files = data(config);
  const Plan made = plan(config, files, 3);
  Session session(config, made, files, Watch::audit);
  session.run_all_phases(files);
  EXPECT_EQ(difference(made, session.audit().phases()), "");
}

TEST_F(ImageTraining, SequentialOrderIsThatOfTheFile) {
  const Config config = this->config("", "order = 'sequential'\n");
  const DataFiles files = data(config);
  EXPECT_EQ(files.validation, nullptr);
  Window window;
  const auto source = files.train->source(reading_of(config, true));
  cut_window(sample_order(config, source->count()), *source, window_rule(config, *files.train), 6, window);
  ASSERT_EQ(window.placed.size(), 6u);
  for (std::uint32_t i = 0; i < 6; ++i) EXPECT_EQ(window.placed[i].ref, (SampleRef{0, 6 + i}));
  EXPECT_EQ(window.units, 6);
}

TEST_F(ImageTraining, OpensInAChild) {
  const Config config = this->config("[image]\nflip = true\n");
  const auto train = open_training_in_child(config, folder / "cache"), rest = open_validation_in_child(config, folder / "cache");
  EXPECT_EQ(train->count({}) + rest->count({}), kImages);
  EXPECT_EQ(train->content_hash(), data(config).train->content_hash());
  const Config alone = this->config("", "");
  EXPECT_EQ(open_validation_in_child(alone, folder / "cache")->count({}), kImages) << "without validation, the training data";
}

TEST_F(ImageTraining, AConfigurationReadsBack) {
  const Config config = this->config("[image]\npad_crop = 2\nflip = true\nmean = 0.3\nstd = [0.2, 0.3, 0.4]\n");
  EXPECT_EQ(config.image.mean, std::vector{0.3});
  const std::string text = resolved_toml(config);
  EXPECT_NE(text.find("std = [0.2, 0.3, 0.4]"), std::string::npos) << text;
  EXPECT_EQ(text.find("context"), std::string::npos) << text;
  write_raw(folder / "again.toml", text);
  EXPECT_EQ(load_config(folder / "again.toml"), config);
}

TEST_F(ImageTraining, KeysOfTokensAreRefused) {
  const auto with = [&](const std::string& more, const std::string& data = "") { return config(more, data); };
  EXPECT_ERROR(with("[batch]\ntokens = 64\n"), "E-CONFIG-CONFLICT", "batch.tokens is given");
  EXPECT_ERROR(with("[batch]\npacking = true\n"), "E-CONFIG-CONFLICT", "batch.packing is given");
  EXPECT_ERROR(with("[model.x]\n"), "E-CONFIG-KEY", "model.x");
  EXPECT_ERROR(with("", "loss = 'all'\n"), "E-CONFIG-CONFLICT", "are images");
  EXPECT_ERROR(with("", "validation_labels = 'labels'\n"), "E-CONFIG-CONFLICT", "data.validation names no images");
  const auto load = [&](const std::string& text) {
    write_raw(folder / "other.toml", "optimizer.learning_rate = 1e-3\n" + text);
    return load_config(folder / "other.toml");
  };
  EXPECT_ERROR(load("train.effective_tokens = 64\n[model]\nkind = 'pixels'\n[data]\nformat = 'idx'\ntrain = 'images.gz'\n"),
               "E-CONFIG-CONFLICT", "train.effective_tokens is given, and a pixels reads no tokens");
  EXPECT_ERROR(load("train.effective_batch = 4\n[model]\nkind = 'pixels'\n[data]\ntrain = 'images.gz'\n"), "E-CONFIG-CONFLICT",
               "and a pixels takes images");
  EXPECT_ERROR(
      load("train.effective_batch = 4\n[model]\nkind = 'pixels'\ncontext = 4\n[data]\nformat = 'idx'\ntrain = 'images.gz'\n"),
      "E-CONFIG-CONFLICT", "model.context is given");
  EXPECT_ERROR(load("train.effective_batch = 4\n[model]\npreset = 'byte-3m'\n[data]\nformat = 'cifar10'\ntrain = 'x'\n"),
               "E-CONFIG-CONFLICT", "a gpt2 takes none");
  EXPECT_ERROR(load("train.effective_batch = 4\n[model]\npreset = 'byte-3m'\n[data]\nformat = 'bytes'\ntrain = "
                    "'x'\n[image]\nflip = true\n"),
               "E-CONFIG-CONFLICT", "are no images");
}

TEST_F(ImageTraining, PlansProposeNoContext) {
  PlanningInput input;
  EXPECT_ERROR(solve_key("context", config(), input), "E-SOLVE-KEY",
               "train.micro_batch, train.effective_batch, adapter.rank, model.width");
  EXPECT_EQ(solve_key("width", config(), input).step, 16);
}

}  // namespace
}  // namespace plimsoll
