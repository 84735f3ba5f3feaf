// Weights in and out of a program's memory, wherever they rest: fresh ones from counter-based random numbers, ones from a Hugging
// Face folder, and a folder that other tools open. Nothing of a tensor's size is allocated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "graph/graph.h"
#include "models/model_config.h"
#include "run/executor.h"

namespace plimsoll {

// Each parameter from its own Philox site (its name), so the values depend on the seed alone.
void initialize_parameters(const Graph& graph, std::uint64_t seed, Executor& executor);
// Fills every parameter from folder/model.safetensors. data_error E-FORMAT-WEIGHTS names a missing, misshapen or unknown tensor.
void load_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder, Executor& executor);
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

}  // namespace plimsoll
