// An adapter as data: which linear layers of a frozen model get one, and of what kind (Hu et al., "LoRA", 2022; Liu et al.,
// "DoRA", 2024; Kalajdzievski, "rsLoRA", 2023). The rules are those of PEFT's LoraConfig.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class AdapterKind : std::uint8_t { none, lora, dora };

// Modules of a model, by names in the module tree of transformers.
struct ModuleSet {
  enum class Kind : std::uint8_t {
    all_linear,  // every linear layer but the output head
    names,       // each the whole name or its last parts: "q_proj", "layers.0.mlp.down_proj"
    expression   // one regular expression, which matches the whole name
  } kind = Kind::all_linear;
  std::vector<std::string> names;  // of `expression` one; of `all_linear` none

  friend bool operator==(const ModuleSet&, const ModuleSet&) = default;
};

// What modules have of which the name's last parts match a regular expression.
struct PatternNumber {
  std::string pattern;
  double number = 0;

  friend bool operator==(const PatternNumber&, const PatternNumber&) = default;
};

struct AdapterSettings {
  AdapterKind kind = AdapterKind::none;
  std::filesystem::path init;  // a PEFT folder that it begins as; empty: new
  std::int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;  // of what the adapter reads
  bool rs = false;     // scaled by alpha / sqrt(rank) instead of alpha / rank
  ModuleSet targets;
  std::vector<std::string> excluded;                       // like ModuleSet::names
  std::vector<PatternNumber> rank_pattern, alpha_pattern;  // the first one that matches counts
  std::vector<std::string> modules_to_save;                // trained whole beside the adapter: all whose names end so

  bool active() const { return kind != AdapterKind::none; }
  std::int64_t rank_of(std::string_view module) const;
  double scale_of(std::string_view module) const;

  friend bool operator==(const AdapterSettings&, const AdapterSettings&) = default;
};

}  // namespace plimsoll
