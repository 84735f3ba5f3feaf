// The settings of an adapter: the linear layers of a frozen model that get one, and its kind (Hu et al., "LoRA", 2022; Liu et
// al., "DoRA", 2024; Kalajdzievski, "rsLoRA", 2023). The rules are those of PEFT's LoraConfig.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class AdapterKind : std::uint8_t { none, lora, dora };

// A set of modules, by names in the module tree of transformers.
struct ModuleSet {
  enum class Kind : std::uint8_t {
    all_linear,  // all linear layers but the output head
    names,       // whole names or their last parts: "q_proj", "layers.0.mlp.down_proj"
    expression   // one regular expression for whole names
  } kind = Kind::all_linear;
  std::vector<std::string> names;  // one for `expression`, none for `all_linear`

  friend bool operator==(const ModuleSet&, const ModuleSet&) = default;
};

// A number (rank or alpha) for the modules whose last name parts match a regular expression.
struct PatternNumber {
  std::string pattern;
  double number = 0;

  friend bool operator==(const PatternNumber&, const PatternNumber&) = default;
};

struct AdapterSettings {
  AdapterKind kind = AdapterKind::none;
  std::filesystem::path init;  // PEFT folder with initial values; empty: new
  std::int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;  // of the adapter's input
  bool rs = false;     // scaled by alpha / sqrt(rank) instead of alpha / rank
  ModuleSet targets;
  std::vector<std::string> excluded;                       // like ModuleSet::names
  std::vector<PatternNumber> rank_pattern, alpha_pattern;  // the first match counts
  std::vector<std::string> modules_to_save;                // trained whole next to the adapter, by ends of names

  bool active() const { return kind != AdapterKind::none; }
  std::int64_t rank_of(std::string_view module) const;
  double scale_of(std::string_view module) const;

  friend bool operator==(const AdapterSettings&, const AdapterSettings&) = default;
};

}  // namespace plimsoll
