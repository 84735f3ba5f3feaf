// Weights in and out of a program's memory, wherever they rest: fresh ones from counter-based random numbers, ones from a Hugging
// Face folder, and a folder that other tools open. Nothing of a tensor's size is allocated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/model_config.h"
#include "run/executor.h"

namespace plimsoll {

inline bool is_frozen(const Value& value) { return value.parameter && value.parameter->kind == ParameterKind::frozen; }
enum class Parameters : std::uint8_t { all, frozen };

// Each parameter from its own Philox site (its name), so the values depend on the seed alone.
void initialize_parameters(const Graph& graph, std::uint64_t seed, Executor& executor, Parameters which = Parameters::all);
// Fills every parameter from folder/model.safetensors. data_error E-FORMAT-WEIGHTS names a missing, misshapen or unknown tensor.
void load_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder, Executor& executor,
                  Parameters which = Parameters::all);

// What parameters begin as.
struct WeightSource {
  std::filesystem::path folder;  // of a Hugging Face model; empty: random numbers
  std::uint64_t seed = 0;        // of those
};
void fill_parameters(const Graph& graph, const WeightSource& source, Executor& executor, Parameters which = Parameters::all);
// What load_weights would throw, from the header of the file alone.
void check_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder);
// Writes config.json and model.safetensors, each whole or not at all.
// `averages`: those of the parameters that have one, instead.
void save_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder, const Executor& executor,
                  bool averages = false);
// What model.safetensors of that folder has.
Bytes weights_bytes(const Graph& graph, const ModelConfig& config, bool averages = false);
// XXH3-128 over the parameters' bytes in the order of the graph.
std::string parameters_hash(const Graph& graph, const Executor& executor);
// Of each of them by itself, in the same order.
std::vector<std::string> hashes_of(const std::vector<ValueId>& values, const Executor& executor);

}  // namespace plimsoll
