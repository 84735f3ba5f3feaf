// Size keys of [model]: their limits and setters.
#pragma once

#include <cstdint>

#include "models/model_config.h"
#include "settings/setting.h"

namespace plimsoll {

inline constexpr std::int64_t kMaxLayers = 1 << 12, kMaxWidth = 1 << 20, kMaxHeads = 1 << 12, kMaxVocab = 1 << 24,
                              kMaxPositions = 1 << 24;

// Sets a field of a family's configuration: set_size<&Gpt2Config::layers, 1, kMaxLayers>.
template <auto kField, std::int64_t kLeast, std::int64_t kMost>
ModelConfig set_size(const ModelConfig& config, const Setting& setting) {
  const auto change = [&]<class Config>(std::int64_t Config::*) {
    return config.with<Config>([&](Config& c) { c.*kField = whole(setting, kLeast, kMost); });
  };
  return change(kField);
}

// A step of ModelKey that does not depend on other sizes.
template <std::int64_t kStep>
std::int64_t every(const ModelConfig&) {
  return kStep;
}
// The step of widths without other divisors: the numbers of a vector.
inline constexpr std::int64_t kWidthStep = 16;

}  // namespace plimsoll
