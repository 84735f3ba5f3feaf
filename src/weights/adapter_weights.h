// The weights of an adapter: new ones, or those of a PEFT folder. DoRA's row norms depend on the base, so they are filled last.
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

// A table that is also the head has two names in an adapter. equal: both have the same numbers. apart: each may have its own, for
// callers that make the head a separate tensor.
enum class TiedTables : std::uint8_t { equal, apart };

// Refuses a folder whose tensors are not those of the adapter in the graph: data_error E-ADAPTER-TENSOR names one; E-ADAPTER-TIED
// if the tensors of a tied table differ; E-ADAPTER-TWICE if the base has this adapter already. Reads headers and tied tensors.
void check_adapter(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings,
                   const std::filesystem::path& base, TiedTables tied = TiedTables::equal);

// Fills the parameters of the adapter, and further parameters that its folder holds. The other parameters are filled already.
void fill_adapter(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings, std::uint64_t seed,
                  Executor& executor);

// The additional heap for filling an adapter, in bytes.
Bytes adapter_heap(const Graph& graph);

// The hash of the numbers in an adapter's file. A model merged with the adapter records it (weights/merge.h).
std::string adapter_hash(const SafetensorsFile& file);
std::string adapter_hash(const std::filesystem::path& folder);
inline constexpr const char* kMergedFile = "merged_adapter.json";
// Throws E-ADAPTER-TWICE if the base contains this adapter already.
void refuse_twice(const std::filesystem::path& base, const std::filesystem::path& adapter);

}  // namespace plimsoll
