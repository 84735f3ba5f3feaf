// Adapters and frozen parameters as a rewrite of a model's graph, before gradients are added. The product of each chosen layer is
// y = x W + b. It becomes y + s drop(x) A^T B^T in every pass of the graph. DoRA also scales the rows to trained magnitudes. All
// parameters of the model are frozen but those of `modules_to_save`. Whatever comes after knows no adapters: it sees a graph with
// some frozen parameters, and some small ones.
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

// A layer with an adapter, by the names of its parameters: module + ".weight", ".lora_A.weight" [rank, inputs] and
// ".lora_B.weight" [outputs, rank]; of DoRA also ".lora_magnitude_vector" and ".lora_norms" [outputs]. The norms are a statistic:
// they follow from the others (ops/adapter), and no file has them.
struct AdaptedLayer {
  std::string module;      // as parameters are called
  std::string in_modules;  // as transformers calls it
  double scale = 1;
};

// The names that a parameter of the model has in the module tree: two where a tied table is the head, too.
std::vector<std::string> names_in_adapter(const ModelConfig& config, const std::string& parameter);

// By the weight, in the order of the graph: what each linear layer of a model multiplies.
std::map<ValueId, LinearOperands> linear_layers(const Graph& graph);

// `seed`: of dropout. E-ADAPTER-TARGET, -PATTERN, -SAVE, -TIED.
void add_adapter(ModelGraph& model, const ModelConfig& config, const AdapterSettings& settings, std::uint64_t seed);
// Of a graph that has it, in the order of its parameters.
std::vector<AdaptedLayer> adapted_layers(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings);
bool has_adapter(const Graph& graph);

// Freezes the parameters whose whole name, or that of a module which holds them, matches one of the expressions. E-FREEZE where
// one matches nothing, or nothing is left to train.
void freeze(Graph& graph, std::span<const std::string> patterns);

}  // namespace plimsoll
