#include "models/toy/toy.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "formats/config_json.h"
#include "graph/builder.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/statistic/statistic.h"

namespace plimsoll::test {
namespace {

constexpr std::int64_t kKinds = 7, kPlaces = 5, kNumbers = 6;
constexpr double kOtherWeight = 0.3;
constexpr Initializer kNormal{Initializer::Kind::normal, 0.05}, kZeros{};

const ToyConfig& of(const ModelConfig& config) { return config.as<ToyConfig>(); }

class Toy {
 public:
  Toy(GraphBuilder& builder, const ToyConfig& config, std::uint64_t seed) : builder_(builder), config_(config), seed_(seed) {
    const std::int64_t w = config.width;
    kinds_ = builder.add_parameter("kinds.weight", {kKinds, w}, kNormal);
    kinds_offset_ = builder.add_parameter("kinds.offset", {1, w}, kZeros);
    places_ = builder.add_parameter("places.weight", {kPlaces, w}, kNormal);
    places_offset_ = builder.add_parameter("places.offset", {1, w}, kZeros);
    projection_ =
        builder.add_parameter("numbers.weight", {.shape = {kNumbers, w}, .initializer = kNormal, .kind = ParameterKind::frozen});
    most_ = ops::add_statistic(builder, "numbers.most", kNumbers);
    for (std::int64_t i = 0; i < config.blocks; ++i) {
      const std::string name = fmt::format("blocks.{}", i);
      blocks_.push_back({ops::add_statistic(builder, name + ".mean", w),
                         builder.add_parameter(name + ".up.weight", {w, 4 * w}, kNormal),
                         builder.add_parameter(name + ".up.bias", Shape{4 * w}, kZeros),
                         builder.add_parameter(name + ".down.weight", {4 * w, w}, kNormal),
                         builder.add_parameter(name + ".down.bias", Shape{w}, kZeros)});
    }
    for (Head* head : {&label_head_, &other_head_}) {
      const std::string name = head == &label_head_ ? "labels" : "others";
      *head = {builder.add_parameter(name + ".weight", {w, config.classes}, kNormal),
               builder.add_parameter(name + ".bias", Shape{config.classes}, kZeros)};
    }
  }

  Pass pass(Section section, std::int64_t batch, const std::string& prefix) {
    const bool training = section == Section::micro;
    builder_.set_section(section);
    Pass pass{.section = section, .inputs = {}, .losses = {}, .results = {}};
    const auto field = [&](const char* name, ValueType type) {
      pass.inputs.push_back({name, Scope::pass, builder_.add_input(prefix + "." + name, std::move(type))});
      return pass.inputs.back().value;
    };
    const ValueId kinds = field("kinds", {DType::i32, {batch, 1}}), places = field("places", {DType::i32, {batch, 1}});
    const ValueId numbers = field("numbers", {DType::f32, {batch, 1, kNumbers}});
    const ValueId labels = field("labels", {DType::i32, {batch, 1}}), others = field("others", {DType::i32, {batch, 1}});
    const ValueId sample_ids = field("sample_ids", {DType::u32, {batch, 2}});
    const ValueId x = hidden(kinds, places, numbers, sample_ids, training);
    const auto loss = [&](const char* name, const Head& head, ValueId targets, Denominator per, double weight) {
      LossTerm term{.name = name, .losses = {}, .scale = {}, .total = {}, .per = per, .weight = weight};
      term.scale = builder_.add_input(fmt::format("{}.{}.scale", prefix, name), {DType::f32, Shape{1}});
      const GraphBuilder::Scope scope(builder_, name);
      const ValueId logits = ops::linear(builder_, x, head.weight, head.bias, "logits");
      term.losses = ops::cross_entropy(builder_, logits, targets, term.scale);
      if (!training) {
        term.total = builder_.add_persistent(fmt::format("{}.{}.total", prefix, name), {DType::f64, Shape{1}}, Role::output);
        builder_.add1(ops::kSumLosses, ops::NoAttributes{}, {term.losses, term.total}, "total");
      }
      pass.losses.push_back(std::move(term));
    };
    loss("loss.labels", label_head_, labels, Denominator::units, 1);
    loss("loss.others", other_head_, others, Denominator::samples, kOtherWeight);
    return pass;
  }

 private:
  struct Block {
    ValueId mean, up, up_bias, down, down_bias;
  };
  struct Head {
    ValueId weight, bias;
  };

  ValueId hidden(ValueId kinds, ValueId places, ValueId numbers, ValueId sample_ids, bool training) {
    if (training) ops::follow_magnitude(builder_, numbers, most_);
    ValueId x = ops::embedding(builder_, kinds, kinds_, kinds_offset_, {}, /*padding=*/-1, "kinds");
    x = ops::add(builder_, x, ops::embedding(builder_, places, places_, places_offset_, {}, /*padding=*/-1, "places"),
                 "looked_up");
    x = ops::add(builder_, x, ops::matmul(builder_, numbers, projection_, {}, "numbers"), "sum");
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const GraphBuilder::Scope scope(builder_, fmt::format("blocks.{}", i));
      const Block& block = blocks_[i];
      if (training) ops::follow_mean(builder_, x, block.mean);
      const ValueId centred = ops::subtract_mean(builder_, x, block.mean, "centred");
      const ValueId up = ops::gelu(builder_, ops::linear(builder_, centred, block.up, block.up_bias, "up"), "gelu");
      const ValueId down = ops::linear(builder_, up, block.down, block.down_bias, "down");
      x = ops::add(builder_, x, ops::dropout(builder_, down, sample_ids, training ? config_.dropout : 0, seed_), "residual");
    }
    return x;
  }

  GraphBuilder& builder_;
  ToyConfig config_;
  std::uint64_t seed_;
  ValueId kinds_, kinds_offset_, places_, places_offset_, projection_, most_;
  std::vector<Block> blocks_;
  Head label_head_, other_head_;
};

ModelGraph build(const ModelConfig& config, const BatchShape& shape, const BuildOptions& options) {
  ModelGraph model;
  GraphBuilder builder(model.graph);
  Toy toy(builder, of(config), options.seed);
  if (shape.evaluate > 0) {
    model.passes.push_back(toy.pass(builder.begin_forward({"evaluate", /*sums=*/true}), shape.evaluate, "evaluate"));
  }
  if (shape.micro > 0) model.passes.push_back(toy.pass(Section::micro, shape.micro, "batch"));
  sort_sections(model.graph);
  return model;
}

ModelConfig read(const ConfigReader& reader) {
  ToyConfig config;
  config.blocks = reader.count("blocks", 100);
  config.width = reader.count("width", 1 << 16);
  config.classes = reader.count("classes", 1 << 16);
  config.dropout = reader.number("dropout", config.dropout, 0, 1);
  return {kToy, config};
}

void write(const ModelConfig& config, const std::filesystem::path& folder) {
  nlohmann::ordered_json json = config_that_is_there(folder);
  json["model_type"] = "toy";
  json["blocks"] = of(config).blocks;
  json["width"] = of(config).width;
  json["classes"] = of(config).classes;
  json["dropout"] = of(config).dropout;
  write_config(folder, json);
}

template <std::int64_t ToyConfig::*kField>
ModelConfig set(const ModelConfig& config, const Setting& setting) {
  return config.with<ToyConfig>([&](ToyConfig& c) { c.*kField = whole(setting, 1, 1 << 16); });
}
template <std::int64_t ToyConfig::*kField>
std::string text(const ModelConfig& config) {
  return toml_text(of(config).*kField);
}

std::span<const ModelKey> keys() {
  const auto key = [](std::string_view name, auto set, auto text) {
    return ModelKey{
        .name = name, .size = true, .required = true, .comment = "of the toy", .example = "4", .set = set, .text = text};
  };
  static const std::array kKeys{key("blocks", set<&ToyConfig::blocks>, text<&ToyConfig::blocks>),
                                key("width", set<&ToyConfig::width>, text<&ToyConfig::width>),
                                key("classes", set<&ToyConfig::classes>, text<&ToyConfig::classes>)};
  return kKeys;
}

template <class T>
void put(const FieldBuffer& field, std::size_t row, std::size_t rows, std::span<const T> items) {
  const std::span<T> all = field.view.as<T>();
  std::ranges::copy(items, all.subspan(row * (all.size() / rows)).begin());
}

}  // namespace

const Family kToy{.kind = "toy",
                  .title = "toy",
                  .defaults = [] { return ModelConfig(kToy, ToyConfig{}); },
                  .keys = keys,
                  .read = read,
                  .write = write,
                  .build = build,
                  .stored = [](const ModelConfig&, std::string_view name) { return std::vector{std::string(name)}; },
                  .ignored = [](std::string_view) { return false; },
                  .facts =
                      [](const ModelConfig& config) {
                        return ModelFacts{.positions = 1, .chance_loss = std::log(static_cast<double>(of(config).classes))};
                      },
                  .describe = [](const ModelConfig& config) { return fmt::format("toy of {} blocks", of(config).blocks); }};

std::int64_t ToySource::staging_bytes(std::int64_t rows) const { return align_up(Bytes{rows * kBytesPerSample}, kCacheLine).n; }

void ToySource::read(std::span<const PlacedSample> samples, std::span<std::byte> staging) const {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::memcpy(staging.data() + i * kBytesPerSample, &samples[i].ref.sample, sizeof samples[i].ref.sample);
  }
}

void ToySource::fill(std::span<const PlacedSample> samples, std::span<const std::byte> staging,
                     std::span<const FieldBuffer> fields) const {
  for (const FieldBuffer& field : fields) {
    if (field.name == "sample_ids") {
      fill_sample_ids(samples, field.view.as<std::uint32_t>());
      continue;
    }
    const auto rows = static_cast<std::size_t>(field.view.shape[0]);
    for (std::size_t row = 0; row < rows; ++row) {
      std::uint32_t sample = 0;
      const bool there = row < samples.size();
      if (there) std::memcpy(&sample, staging.data() + row * kBytesPerSample, sizeof sample);
      const auto number = static_cast<std::int32_t>(sample);
      const auto classes = static_cast<std::int32_t>(classes_);
      const auto one = [&](std::int32_t value) { put<std::int32_t>(field, row, rows, std::array{value}); };
      if (field.name == "kinds") {
        one(there ? number % static_cast<std::int32_t>(kKinds) : 0);
      } else if (field.name == "places") {
        one(there ? number / 3 % static_cast<std::int32_t>(kPlaces) : 0);
      } else if (field.name == "labels") {
        one(there ? number * 3 % classes : -1);
      } else if (field.name == "others") {
        one(there ? number % 7 % classes : -1);
      } else {
        ensure(field.name == "numbers", "ToySource", "a field that it does not know");
        std::array<float, kNumbers> numbers{};
        for (std::size_t i = 0; there && i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(sample * (i + 1)));
        put<float>(field, row, rows, numbers);
      }
    }
  }
}

}  // namespace plimsoll::test
