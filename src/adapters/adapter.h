// Adapters and frozen parameters as a rewrite of a model's graph, before gradients are added. The product y = x W + b of each
// selected layer becomes y + s drop(x) A^T B^T in every pass. DoRA also scales the rows to trained magnitudes. All parameters of
// the model but those of `modules_to_save` are frozen. Later stages see only a graph with frozen and small parameters.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "adapters/settings.h"
#include "models/model_config.h"
#include "models/model_graph.h"

namespace plimsoll {

// A layer with an adapter, by names of parameters: module + ".weight", ".lora_A.weight" [rank, inputs], ".lora_B.weight"
// [outputs, rank]; with DoRA also ".lora_magnitude_vector" and ".lora_norms" [outputs]. The norms are a statistic of the others
// (ops/adapter), and no file has them.
struct AdaptedLayer {
  std::string module;      // prefix of parameter names
  std::string in_modules;  // name in transformers
  double scale = 1;
};

// The names of a parameter in the module tree: two if a tied table is also the head.
std::vector<std::string> names_in_adapter(const ModelConfig& config, const std::string& parameter);

// The operands of each linear layer by weight, in the order of the graph.
std::map<ValueId, LinearOperands> linear_layers(const Graph& graph);

// `seed`: for dropout. E-ADAPTER-TARGET, -PATTERN, -SAVE, -TIED.
void add_adapter(ModelGraph& model, const ModelConfig& config, const AdapterSettings& settings, std::uint64_t seed);
// The adapted layers of a graph, in the order of its parameters.
std::vector<AdaptedLayer> adapted_layers(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings);
bool has_adapter(const Graph& graph);

// Freezes parameters whose whole name, or that of their module, matches an expression. E-FREEZE if one matches nothing, or if no
// parameter is left to train.
void freeze(Graph& graph, std::span<const std::string> patterns);

}  // namespace plimsoll
