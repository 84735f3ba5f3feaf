#include "weights/weight_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "adapters/adapter.h"
#include "adapters/peft_folder.h"
#include "autodiff/training.h"
#include "base/error.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/weight_files.h"
#include "formats/weight_index.h"
#include "models/family.h"
#include "weights/file_order.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "plimsoll.stored/1";
constexpr std::pair<const char*, DType> kTypes[] = {
    {"F32", DType::f32}, {"BF16", DType::bf16}, {"F16", DType::f16}, {"I64", DType::i64}};

const char* word_of(DType dtype) {
  const auto* found = std::ranges::find(kTypes, dtype, &std::pair<const char*, DType>::second);
  ensure(found != std::end(kTypes), "weights", "weights are stored as fp32, bf16 or fp16");
  return found->first;
}

DType type_of(const std::string& word) {
  const auto* found = std::ranges::find_if(kTypes, [&](const auto& type) { return type.first == word; });
  if (found == std::end(kTypes)) throw std::out_of_range(fmt::format("a type is {}", word));
  return found->second;
}

StoredParameter parameter_from(const json& object, std::size_t files) {
  StoredParameter stored{object.at("name").get<std::string>(), type_of(object.at("type").get<std::string>()),
                         object.at("file").get<std::size_t>()};
  if (stored.file >= files) throw std::out_of_range(fmt::format("{} is in file {} of {}", stored.name, stored.file, files));
  return stored;
}

// Checks that each name occurs once and each file is used.
void check_names(const WeightLayout& layout) {
  std::vector<std::string_view> names;
  std::vector<bool> used(layout.files.size());
  for (const StoredParameter& stored : layout.parameters) {
    names.push_back(stored.name);
    used[stored.file] = true;
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) throw std::out_of_range(fmt::format("two parameters are {}", *twice));
  if (std::ranges::find(used, false) != used.end()) throw std::out_of_range("a file has no parameter");
  if (!layout.index && layout.files != std::vector<std::string>{kWeightsFile}) throw std::out_of_range("files have no index");
}

}  // namespace

std::string layout_text(const Graph& graph, const WeightLayout& layout) {
  if (layout.is_new()) return {};
  json parameters = json::object();
  const std::vector<ValueId> ids = graph.parameters();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const StoredParameter& stored = layout.parameters.at(i);
    parameters[graph.values[ids[i]].name.text()] = {
        {"name", stored.name}, {"type", word_of(stored.dtype)}, {"file", stored.file}};
  }
  const json object = {{"schema", kSchema}, {"index", layout.index}, {"files", layout.files}, {"parameters", parameters}};
  return object.dump(1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace) + "\n";
}

WeightLayout read_layout(const Graph& graph, const std::filesystem::path& file) {
  // Four values for each parameter.
  constexpr JsonLimits kLimits{.bytes = 16 << 20, .values = 300'000};
  const std::string text = read_text(file, kLimits.bytes, "E-RUN-STORED");
  try {
    const json object = parse_json(text, kLimits);
    if (!object.is_object()) throw std::out_of_range("it is no object");
    if (object.at("schema") != kSchema) throw std::out_of_range("it is of another version");
    WeightLayout layout{object.at("index").get<bool>(), object.at("files").get<std::vector<std::string>>(), {}};
    for (const std::string& name : layout.files) {
      if (!is_plain_name(name) || !name.ends_with(".safetensors")) throw std::out_of_range("a file is " + name);
    }
    const json& parameters = object.at("parameters");
    for (const ValueId id : graph.parameters()) {
      layout.parameters.push_back(parameter_from(parameters.at(graph.values[id].name.text()), layout.files.size()));
    }
    check_names(layout);
    return layout;
  } catch (const std::exception& error) {
    throw data_error("E-RUN-STORED", file.string(), fmt::format("it does not say how the weights are stored: {}", error.what()),
                     "the file that the run began with", {fmt::format("remove it: weights are then saved as one new file")});
  }
}

ValueId saved_value(const Graph& graph, ValueId parameter, bool averages) {
  const ValueId average = averages ? graph.find(graph.values[parameter].name.text() + "." + kAverageName) : ValueId{};
  return average.valid() ? average : parameter;
}

namespace {

WeightsFile adapter_file(const Graph& graph, const ModelConfig& config, bool averages) {
  WeightsFile file{kAdapterFile, {}, {}};
  for (AdapterTensor& tensor : adapter_tensors(graph, config)) {
    const DType dtype = graph.values[saved_value(graph, tensor.parameter, averages)].type.dtype;
    file.tensors.push_back({std::move(tensor.name), dtype, graph.values[tensor.parameter].type.shape});
    file.parameters.push_back(tensor.parameter);
  }
  return file;
}

}  // namespace

std::vector<WeightsFile> files_of(const Graph& graph, const ModelConfig& config, const WeightLayout& layout, bool averages) {
  if (has_adapter(graph)) return {adapter_file(graph, config, averages)};
  const std::vector<ValueId> ids = graph.parameters();
  std::vector<WeightsFile> files;
  for (const std::string& name : layout.files) files.push_back({name, {}, {}});
  if (layout.is_new()) files = {{kWeightsFile, {}, {}}};
  ensure(layout.is_new() || layout.parameters.size() == ids.size(), "weights", "a layout of another model");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Value& parameter = graph.values[ids[i]];
    TensorSpec spec{{}, graph.values[saved_value(graph, ids[i], averages)].type.dtype, shape_in_files(parameter)};
    if (parameter.parameter->blocks) spec.dtype = DType::bf16;  // rounded
    std::size_t file = 0;
    if (layout.is_new()) {
      spec.name = config.family().stored(config, parameter.name.text()).front();
    } else {
      spec.name = layout.parameters[i].name;
      spec.dtype = layout.parameters[i].dtype;
      file = layout.parameters[i].file;
    }
    files[file].tensors.push_back(std::move(spec));
    files[file].parameters.push_back(ids[i]);
  }
  return files;
}

std::string index_text_of(const std::vector<WeightsFile>& files) {
  WeightIndex index;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    index.files.push_back(files[i].name);
    for (const TensorSpec& tensor : files[i].tensors) {
      index.places.emplace_back(tensor.name, static_cast<std::uint32_t>(i));
      total += dense_bytes(tensor.shape, tensor.dtype);
    }
  }
  std::ranges::sort(index.places);
  return weight_index_text(index, total);
}

std::optional<DType> common_dtype(const std::vector<WeightsFile>& files) {
  std::optional<DType> common;
  for (const WeightsFile& file : files) {
    for (const TensorSpec& tensor : file.tensors) {
      if (tensor.dtype == DType::i64) continue;  // a count
      if (common.value_or(tensor.dtype) != tensor.dtype) return {};
      common = tensor.dtype;
    }
  }
  return common;
}

}  // namespace plimsoll
