// The folder of an adapter in PEFT's form: adapter_config.json and adapter_model.safetensors. Unsupported features are refused by
// name: data_error E-ADAPTER-FEATURE. Facts: PEFT's LoraConfig and its save_pretrained.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/settings.h"
#include "formats/safetensors.h"
#include "formats/weights_folder.h"
#include "graph/graph.h"
#include "models/model_config.h"

namespace plimsoll {

inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

// True if the folder holds an adapter and no model.
bool is_adapter_folder(const std::filesystem::path& folder);

struct PeftAdapter {
  AdapterSettings settings;  // `init` is the folder
  std::string base;          // base_model_name_or_path as written; empty: none
};
// Reads the configuration alone. E-ADAPTER-FOLDER if it cannot be read.
PeftAdapter read_peft_folder(const std::filesystem::path& folder);
// Opens the tensors. E-ADAPTER-FOLDER if they are missing.
SafetensorsFile open_adapter(const std::filesystem::path& folder);

// The folder of the adapter's base. E-ADAPTER-BASE, with a remedy, if it is missing.
std::filesystem::path base_of(const PeftAdapter& adapter);

// The command that merges the adapter into a model in a new folder next to it. It names the base if the adapter does not.
struct MergeCommand {
  Remedy remedy;
  std::filesystem::path out;
};
MergeCommand merge_command(const std::filesystem::path& adapter);

// The configuration of a graph's adapter.
std::string peft_config_text(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings,
                             const std::filesystem::path& base);

// A tensor of adapter_model.safetensors, and its parameter.
struct AdapterTensor {
  std::string name;
  ValueId parameter;
};
// All tensors: adapter parameters except statistics, and parameters trained whole. A tied table has two.
std::vector<AdapterTensor> adapter_tensors(const Graph& graph, const ModelConfig& config);

}  // namespace plimsoll
