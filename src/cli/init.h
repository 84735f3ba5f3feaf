// The text of `plimsoll init [PRESET]`: a configuration with every key, each with a line on what it is.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr std::string_view kInitPreset = "byte-3m";

// TOML that load_config reads. "byte-*" trains on a text file as it is, "gpt2*" on tokens of GPT-2. E-CONFIG-PRESET for other
// names.
std::string init_text(std::string_view preset = kInitPreset);

}  // namespace plimsoll
