// How the weights of a model lie in the files of a folder. A run saves its weights as the folder had them from which it began:
// each parameter in the same file, under the same name, in the same type.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "formats/safetensors.h"
#include "graph/graph.h"
#include "models/model_config.h"

namespace plimsoll {

struct StoredParameter {
  std::string name;
  DType dtype = DType::f32;  // f32, bf16 or f16
  std::size_t file = 0;      // index into WeightLayout::files
  friend bool operator==(const StoredParameter&, const StoredParameter&) = default;
};

struct WeightLayout {
  bool index = false;                       // model.safetensors.index.json says which file holds what
  std::vector<std::string> files;           // plain names
  std::vector<StoredParameter> parameters;  // in the order of the graph

  // Of a model that came from no folder: model.safetensors, names of the family, types as in memory.
  bool is_new() const { return parameters.empty(); }
  friend bool operator==(const WeightLayout&, const WeightLayout&) = default;
};

// JSON, for the folder of a run. A new one has none.
std::string layout_text(const Graph& graph, const WeightLayout& layout);
// data_error E-RUN-STORED where the file does not say it of every parameter.
WeightLayout read_layout(const Graph& graph, const std::filesystem::path& file);

// A file to be written: its tensors are those parameters of the graph, in this order. With an adapter there is one, which has
// that and what is trained beside it.
struct WeightsFile {
  std::string name;
  std::vector<TensorSpec> tensors;
  std::vector<ValueId> parameters;
};
// `averages`: those of the parameters that have one, instead.
std::vector<WeightsFile> files_of(const Graph& graph, const ModelConfig& config, const WeightLayout& layout, bool averages);
// The parameter, or its average where it has one.
ValueId saved_value(const Graph& graph, ValueId parameter, bool averages);
// Of model.safetensors.index.json.
std::string index_text_of(const std::vector<WeightsFile>& files);
// The type that all of them have.
std::optional<DType> common_dtype(const std::vector<WeightsFile>& files);

}  // namespace plimsoll
