#include "models/gpt2/gpt2.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

const Gpt2Config& of(const ModelConfig& config) { return config.as<Gpt2Config>(); }

ModelConfig defaults() { return {kGpt2, Gpt2Config{}}; }

// Files from before 2020 have no prefix. A tied head is the token table.
std::vector<std::string> stored(const ModelConfig& config, std::string_view parameter) {
  if (parameter == "lm_head.weight") return {"lm_head.weight"};
  std::vector<std::string> names{std::string(parameter), "transformer." + std::string(parameter)};
  if (parameter == "wte.weight" && of(config).tied) names.emplace_back("lm_head.weight");
  return names;
}

// Constant masks of old files.
bool ignored(std::string_view name) { return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"); }

ModelFacts facts(const ModelConfig& config) {
  const Gpt2Config& c = of(config);
  const double layers = static_cast<double>(c.layers), width = static_cast<double>(c.width);
  const double vocab = static_cast<double>(c.vocab), rows = static_cast<double>(c.context);
  return {.vocab = c.vocab,
          .positions = c.context,
          .bytes = c.byte_vocabulary,
          .chance_loss = std::log(vocab),
          .parameters = ((c.tied ? 1 : 2) * vocab + rows) * width + layers * 12 * width * width,
          .values_per_token = vocab + layers * 16 * width};
}

std::string describe(const ModelConfig& config) {
  return fmt::format("gpt2 of {} layers, width {}", of(config).layers, of(config).width);
}

ModelConfig change_vocabulary(const ModelConfig& config, std::int64_t vocab, bool bytes) {
  return config.with<Gpt2Config>([&](Gpt2Config& c) {
    c.vocab = vocab;
    c.byte_vocabulary = bytes;
  });
}

ModelConfig change_positions(const ModelConfig& config, std::int64_t positions) {
  return config.with<Gpt2Config>([&](Gpt2Config& c) { c.context = positions; });
}

ModelConfig preset(std::int64_t layers, std::int64_t width, std::int64_t heads, std::int64_t context, std::int64_t vocab) {
  Gpt2Config config{.layers = layers, .width = width, .heads = heads, .context = context, .vocab = vocab};
  config.byte_vocabulary = vocab == 256;
  return {kGpt2, config};
}

}  // namespace

std::span<const ModelPreset> gpt2_presets() {
  static const std::array kPresets{
      ModelPreset{"gpt2", preset(12, 768, 12, 1024, 50257)},        ModelPreset{"gpt2-medium", preset(24, 1024, 16, 1024, 50257)},
      ModelPreset{"gpt2-large", preset(36, 1280, 20, 1024, 50257)}, ModelPreset{"gpt2-xl", preset(48, 1600, 25, 1024, 50257)},
      ModelPreset{"byte-3m", preset(4, 256, 4, 256, 256)},          ModelPreset{"byte-10m", preset(6, 384, 6, 256, 256)}};
  return kPresets;
}

const Family kGpt2{
    .kind = "gpt2",
    .title = "GPT-2",
    .defaults = defaults,
    .presets = gpt2_presets,
    .keys = gpt2_keys,
    .read = [](const ConfigReader& reader) { return ModelConfig(kGpt2, read_gpt2_config(reader)); },
    .write = [](const ModelConfig& config, const std::filesystem::path& folder) { write_gpt2_config(of(config), folder); },
    .build = [](const ModelConfig& config, const BatchShape& shape,
                const BuildOptions& options) { return build_gpt2(of(config), shape, options); },
    .stored = stored,
    .ignored = ignored,
    .in_modules = [](std::string_view name) { return (name.starts_with("lm_head.") ? "" : "transformer.") + std::string(name); },
    .gguf = &kGpt2Gguf,
    .facts = facts,
    .describe = describe,
    .fault = gpt2_fault,
    .doubts = gpt2_doubts,
    .with_vocabulary = change_vocabulary,
    .with_positions = change_positions};

}  // namespace plimsoll
