// The folder of an adapter as PEFT has it: adapter_config.json and adapter_model.safetensors. What PEFT may say there and
// Plimsoll does not compute is refused by name: data_error E-ADAPTER-FEATURE. Facts: PEFT's LoraConfig and its save_pretrained.
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

// Whether the folder holds an adapter, and no model of its own.
bool is_adapter_folder(const std::filesystem::path& folder);

struct PeftAdapter {
  AdapterSettings settings;  // `init` is the folder
  std::string base;          // base_model_name_or_path, as it stands there; empty: it says none
};
// Its configuration alone. E-ADAPTER-FOLDER where there is none that can be read.
PeftAdapter read_peft_folder(const std::filesystem::path& folder);
// Its tensors. E-ADAPTER-FOLDER where they are not there.
SafetensorsFile open_adapter(const std::filesystem::path& folder);

// The folder of the base that the adapter names. E-ADAPTER-BASE, with what to write instead, where it is not there.
std::filesystem::path base_of(const PeftAdapter& adapter);

// The command that merges the adapter into a model of its own, in a new folder next to it. It names the base if the adapter does
// not.
struct MergeCommand {
  Remedy remedy;
  std::filesystem::path out;
};
MergeCommand merge_command(const std::filesystem::path& adapter);

// Of a graph that has the adapter.
std::string peft_config_text(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings,
                             const std::filesystem::path& base);

// A tensor of adapter_model.safetensors, and the parameter that has its numbers.
struct AdapterTensor {
  std::string name;
  ValueId parameter;
};
// All of them: adapter parameters that are no statistics, and what is trained beside them. A tied table has two.
std::vector<AdapterTensor> adapter_tensors(const Graph& graph, const ModelConfig& config);

}  // namespace plimsoll
