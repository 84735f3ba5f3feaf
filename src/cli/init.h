// The texts of `plimsoll init`: for a preset, a configuration with every key and its comment; for a model and data, a
// configuration with the keys that matter for them.
#pragma once

#include <string>
#include <string_view>

#include "prepare/starting_point.h"

namespace plimsoll {

inline constexpr std::string_view kInitPreset = "byte-3m";

// TOML that load_config reads. "byte-*" trains on a text file as it is, "gpt2*" on tokens of GPT-2. E-CONFIG-PRESET for other
// names.
std::string init_text(std::string_view preset = kInitPreset);
// `command`: the typed command line.
std::string init_text(const StartingPoint& start, std::string_view command);

}  // namespace plimsoll
