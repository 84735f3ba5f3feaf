// The numbers of an adapter: new ones, or those of a PEFT folder. Row norms of DoRA follow from the base, and so they come last.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "adapters/settings.h"
#include "formats/safetensors.h"
#include "graph/graph.h"
#include "models/model_config.h"
#include "run/executor.h"

namespace plimsoll {

// A table that is also the head has two names in an adapter: both with the same numbers, or, for whoever makes the head a tensor
// of its own, either of them with its own.
enum class TiedTables : std::uint8_t { equal, apart };

// Refuses a folder whose tensors are not those of the adapter in the graph: data_error E-ADAPTER-TENSOR names one; E-ADAPTER-TIED
// where a tied table comes as two; E-ADAPTER-TWICE where the base holds this adapter already. Reads headers, and what is tied.
void check_adapter(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings,
                   const std::filesystem::path& base, TiedTables tied = TiedTables::equal);

// Fills the parameters of the adapter, and what its folder holds beside them; of a graph whose other parameters are filled.
void fill_adapter(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings, std::uint64_t seed,
                  Executor& executor);

// The heap that filling takes, beyond what it takes without an adapter.
Bytes adapter_heap(const Graph& graph);

// Of the numbers of an adapter's file; a model that it was merged into says it (weights/merge.h).
std::string adapter_hash(const SafetensorsFile& file);
std::string adapter_hash(const std::filesystem::path& folder);
inline constexpr const char* kMergedFile = "merged_adapter.json";
// Throws E-ADAPTER-TWICE.
void refuse_twice(const std::filesystem::path& base, const std::filesystem::path& adapter);

}  // namespace plimsoll
