// Keys of [model] that several families share, and the limits of sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "models/family.h"
#include "settings/setting.h"

namespace plimsoll {

inline constexpr std::int64_t kMaxLayers = 1 << 12, kMaxWidth = 1 << 20, kMaxHeads = 1 << 12, kMaxVocab = 1 << 24,
                              kMaxPositions = 1 << 24, kMaxClasses = 1 << 20, kMaxChannels = 1 << 10, kMaxImage = 1 << 14;

// Sets a field of a family's configuration: set_size<&Gpt2Config::layers, 1, kMaxLayers>.
template <auto kField, std::int64_t kLeast, std::int64_t kMost>
ModelConfig set_size(const ModelConfig& config, const Setting& setting) {
  const auto change = [&]<class Config>(std::int64_t Config::*) {
    return config.with<Config>([&](Config& c) { c.*kField = whole(setting, kLeast, kMost); });
  };
  return change(kField);
}

// The TOML value of such a field.
template <auto kField>
std::string size_text(const ModelConfig& config) {
  const auto read = [&]<class Config>(std::int64_t Config::*) { return config.as<Config>().settled().*kField; };
  return toml_text(read(kField));
}

// The key of a size of the blocks.
template <auto kField, std::int64_t kMost>
ModelKey size_key(std::string_view name, bool required, std::string_view comment, std::string_view example,
                  std::int64_t (*step)(const ModelConfig&) = nullptr) {
  return {.name = name,
          .size = true,
          .required = required,
          .comment = comment,
          .example = example,
          .set = set_size<kField, 1, kMost>,
          .text = size_text<kField>,
          .step = step};
}

// A step of ModelKey that does not depend on other sizes.
template <std::int64_t kStep>
std::int64_t every(const ModelConfig&) {
  return kStep;
}
// The step of widths without other divisors: the numbers of a vector.
inline constexpr std::int64_t kWidthStep = 16;

// Keys of a family whose configuration C has fields of these names.
template <class C>
ModelKey layers_key() {
  return size_key<&C::layers, kMaxLayers>("layers", true, "number of blocks", "12", every<1>);
}
template <class C>
ModelKey width_key(std::int64_t (*step)(const ModelConfig&)) {
  return size_key<&C::width, kMaxWidth>("width", true, "numbers per token between the blocks, a multiple of the heads", "768",
                                        step);
}
template <class C>
ModelKey heads_key() {
  return size_key<&C::heads, kMaxHeads>("heads", true, "attention heads of a block", "12");
}
template <class C>
ModelKey vocab_key() {
  return {.name = "vocab",
          .required = true,
          .comment = "number of different tokens; 256 for bytes",
          .example = "50257",
          .set = set_size<&C::vocab, 2, kMaxVocab>,
          .text = size_text<&C::vocab>};
}
template <class C>
ModelKey initializer_range_key() {
  return {.name = "initializer_range",
          .new_weights = true,
          .comment = "standard deviation of new weights",
          .example = "0.02",
          .set =
              [](const ModelConfig& config, const Setting& setting) {
                return config.with<C>([&](C& c) { c.initializer_range = number(setting, 1e-6, 10); });
              },
          .text = [](const ModelConfig& config) { return toml_text(config.as<C>().initializer_range); }};
}

// The key of one rate for all these fields. Its text is empty if a folder has several rates.
template <auto kField, auto... kOthers>
ModelKey dropout_key(std::string_view comment, std::string_view example = "0.1") {
  return {.name = "dropout",
          .of_folder = false,
          .on_resume = OnResume::results,
          .comment = comment,
          .example = example,
          .set =
              [](const ModelConfig& config, const Setting& setting) {
                const auto change = [&]<class C>(double C::*field) {
                  return config.with<C>([&](C& c) {
                    c.*field = number(setting, 0, kBelowOne);
                    ((c.*kOthers = c.*field), ...);
                  });
                };
                return change(kField);
              },
          .text =
              [](const ModelConfig& config) {
                const auto read = [&]<class C>(double C::*field) {
                  const C& c = config.as<C>();
                  return ((c.*kOthers == c.*field) && ...) ? toml_text(c.*field) : std::string();
                };
                return read(kField);
              }};
}

}  // namespace plimsoll
