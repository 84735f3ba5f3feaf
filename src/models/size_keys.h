// Size keys of [model]: their limits and setters.
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

}  // namespace plimsoll
