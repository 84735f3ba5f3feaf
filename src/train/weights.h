// Weights in and out of an arena: fresh ones from counter-based random numbers, ones from a Hugging Face folder, and a folder
// that other tools open. Bytes go between file and arena directly; nothing of a tensor's size is allocated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "formats/huggingface.h"
#include "graph/graph.h"
#include "tensor/tensor_view.h"

namespace plimsoll {

using ViewOf = std::function<TensorView(ValueId)>;

// Each parameter from its own Philox site (its name), so the values depend on the seed alone.
void initialize_parameters(const Graph& graph, std::uint64_t seed, const ViewOf& view);
// Fills every parameter from folder/model.safetensors. data_error E-FORMAT-WEIGHTS names a missing or misshapen tensor.
void load_weights(const Graph& graph, const std::filesystem::path& folder, const ViewOf& view);
// Writes config.json and model.safetensors, each whole or not at all.
void save_weights(const Graph& graph, const Gpt2Config& config, const std::filesystem::path& folder, const ViewOf& view);
// XXH3-128 over the parameters' bytes in the order of the graph.
std::string parameters_hash(const Graph& graph, const ViewOf& view);

}  // namespace plimsoll
