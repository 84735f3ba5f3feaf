// The layout of a model's weights in the files of a folder. A run saves its weights in the layout of its initial folder: each
// parameter in the same file, under the same name, in the same type.
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
  DType dtype = DType::f32;  // f32, bf16 or f16; i64 for a count
  std::size_t file = 0;      // index into WeightLayout::files
  friend bool operator==(const StoredParameter&, const StoredParameter&) = default;
};

struct WeightLayout {
  bool index = false;                       // model.safetensors.index.json names the file of each tensor
  std::vector<std::string> files;           // plain names
  std::vector<StoredParameter> parameters;  // in the order of the graph

  // True for a model from no folder: model.safetensors, names of the family, types as in memory.
  bool is_new() const { return parameters.empty(); }
  friend bool operator==(const WeightLayout&, const WeightLayout&) = default;
};

// The layout as JSON for the folder of a run; empty for a new one.
std::string layout_text(const Graph& graph, const WeightLayout& layout);
// data_error E-RUN-STORED if the file lacks a parameter.
WeightLayout read_layout(const Graph& graph, const std::filesystem::path& file);

// A file to be written, with its tensors and their parameters in the same order. With an adapter there is one file, for the
// adapter and other trained parameters.
struct WeightsFile {
  std::string name;
  std::vector<TensorSpec> tensors;
  std::vector<ValueId> parameters;
};
// `averages`: averages in place of parameters that have one.
std::vector<WeightsFile> files_of(const Graph& graph, const ModelConfig& config, const WeightLayout& layout, bool averages);
// The parameter, or with `averages` its average if it has one.
ValueId saved_value(const Graph& graph, ValueId parameter, bool averages);
// The text of model.safetensors.index.json.
std::string index_text_of(const std::vector<WeightsFile>& files);
// The common type of all tensors; absent if they differ.
std::optional<DType> common_dtype(const std::vector<WeightsFile>& files);

}  // namespace plimsoll
