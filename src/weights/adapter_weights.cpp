#include "weights/adapter_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/peft_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "ops/adapter/kernels.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = 1 << 16;

Error not_this(const SafetensorsFile& file, std::string what, std::string expected) {
  return data_error("E-ADAPTER-TENSOR", file.path(), std::move(what), std::move(expected));
}

// Calls f(bytes) for all of a tensor.
template <class F>
void for_pieces(const SafetensorsFile& file, const StoredTensor& tensor, F f) {
  std::array<std::byte, kPiece> piece;
  for (std::int64_t at = 0; at < tensor.bytes; at += static_cast<std::int64_t>(kPiece)) {
    const std::span<std::byte> part =
        std::span(piece).first(static_cast<std::size_t>(std::min(static_cast<std::int64_t>(kPiece), tensor.bytes - at)));
    file.read_part(tensor, at, part);
    f(std::span<const std::byte>(part));
  }
}

std::string hash_of(const SafetensorsFile& file, const StoredTensor& tensor) {
  Hasher hasher;
  for_pieces(file, tensor, [&](std::span<const std::byte> part) { hasher.add(part); });
  return hasher.hex();
}

// Checks the tensor of each name, and that the file has no others.
void check_tensors(const Graph& graph, const ModelConfig& config, const SafetensorsFile& file, TiedTables tied) {
  std::set<std::string> known;
  std::map<ValueId, const StoredTensor*> first;
  const std::vector<AdapterTensor> tensors = adapter_tensors(graph, config);
  const auto has_other_name = [&](const AdapterTensor& one) {
    return tied == TiedTables::apart && std::ranges::any_of(tensors, [&](const AdapterTensor& other) {
             return other.parameter == one.parameter && file.find(other.name) != nullptr;
           });
  };
  for (const AdapterTensor& each : tensors) {
    const StoredTensor* tensor = file.find(each.name);
    const Shape& shape = graph.values[each.parameter].type.shape;
    if (tensor == nullptr && has_other_name(each)) continue;
    if (tensor == nullptr) {
      throw not_this(file, fmt::format("there is no tensor {}", each.name),
                     fmt::format("all that {} asks for on this model", kAdapterConfig));
    }
    if (tensor->shape != shape) {
      throw not_this(file, fmt::format("{} is {}", each.name, to_text(tensor->shape)),
                     fmt::format("{}, as the base and {} say", to_text(shape), kAdapterConfig));
    }
    require_readable(file, *tensor);
    known.insert(each.name);
    const auto [place, fresh] = first.emplace(each.parameter, tensor);
    const bool same = fresh || tied == TiedTables::apart ||
                      (place->second->stored_as == tensor->stored_as && hash_of(file, *place->second) == hash_of(file, *tensor));
    if (same) continue;
    throw data_error("E-ADAPTER-TIED", file.path(),
                     fmt::format("{} and {} are one tensor in the base and differ", place->second->name, each.name),
                     "a base with a separate head; merging makes one",
                     {merge_command(fs::path(file.path()).parent_path()).remedy});
  }
  for (const StoredTensor& tensor : file.tensors()) {
    if (known.contains(tensor.name)) continue;
    throw not_this(file, fmt::format("it has a tensor {}", tensor.name),
                   fmt::format("only the tensors that {} implies for this model", kAdapterConfig));
  }
}

// The fp32 numbers of a value: in place if the host sees it, else a copy.
class Numbers {
 public:
  Numbers(const Executor& executor, ValueId id) {
    if (executor.visible(id)) {
      all_ = executor.view(id).as<float>();
      return;
    }
    executor.read(id, [&](std::span<const std::byte> part) {
      const std::size_t before = copy_.size();
      copy_.resize(before + part.size() / sizeof(float));
      std::memcpy(copy_.data() + before, part.data(), part.size());
    });
    all_ = copy_;
  }
  const float* data() const { return all_.data(); }

 private:
  std::vector<float> copy_;
  std::span<const float> all_;
};

void write_floats(Executor& executor, ValueId id, std::span<const float> numbers) {
  std::size_t done = 0;
  executor.write(id, [&](std::span<std::byte> part) {
    std::memcpy(part.data(), std::as_bytes(numbers).data() + done, part.size());
    done += part.size();
  });
}

// The arguments for the row norms of a DoRA layer, without the data of A and B.
cpu::RowNorms row_norms_of(const Graph& graph, const std::string& module, double scale) {
  const Value& weight = graph.values[graph.find(module + ".weight")];
  const Shape &a = graph.values[graph.find(module + ".lora_A.weight")].type.shape,
              &b = graph.values[graph.find(module + ".lora_B.weight")].type.shape;
  return {b[0], a[1], a[0], scale, weight.parameter->inputs_first, {weight.type.dtype, weight.parameter->blocks}};
}

// Uses the kernel of the CPU's update, so the bits are the same on every tier and device.
void fill_norms(const Graph& graph, const AdaptedLayer& layer, bool new_magnitudes, Executor& executor) {
  const ValueId weight = graph.find(layer.module + ".weight");
  const Numbers of_a(executor, graph.find(layer.module + ".lora_A.weight")),
      of_b(executor, graph.find(layer.module + ".lora_B.weight"));
  cpu::RowNorms norms = row_norms_of(graph, layer.module, layer.scale);
  norms.a = of_a.data(), norms.b = of_b.data();
  const bool visible = executor.visible(weight);
  std::vector<std::byte> scratch(static_cast<std::size_t>(norms.scratch(!visible).n));
  norms.begin(scratch.data());
  if (visible) norms.add(executor.view(weight).as_pointer<std::byte>(), scratch.data());
  for (int pass = 0; !visible && pass < norms.passes(); ++pass) {
    std::int64_t at = 0;
    executor.read(weight, [&](std::span<const std::byte> part) {
      norms.add_part(pass, at, part, scratch.data());
      at += std::ssize(part);
    });
  }
  std::vector<float> rows(static_cast<std::size_t>(norms.rows));
  norms.end(scratch.data(), rows.data());
  write_floats(executor, graph.find(layer.module + ".lora_norms"), rows);
  if (new_magnitudes) write_floats(executor, graph.find(layer.module + ".lora_magnitude_vector"), rows);
}

}  // namespace

void check_adapter(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings, const fs::path& base,
                   TiedTables tied) {
  if (settings.init.empty()) return;
  check_tensors(graph, config, open_adapter(settings.init), tied);
  refuse_twice(base, settings.init);
}

void fill_adapter(const Graph& graph, const ModelConfig& config, const AdapterSettings& settings, std::uint64_t seed,
                  Executor& executor) {
  if (settings.init.empty()) {
    initialize_parameters(graph, seed, executor, Parameters::adapter);
  } else {
    const SafetensorsFile file = open_adapter(settings.init);
    check_tensors(graph, config, file, TiedTables::equal);
    std::set<ValueId> filled;
    for (const AdapterTensor& each : adapter_tensors(graph, config)) {
      if (filled.insert(each.parameter).second) load_parameter(file, *file.find(each.name), graph, each.parameter, executor);
    }
    file.forget();
  }
  if (settings.kind != AdapterKind::dora) return;
  for (const AdaptedLayer& layer : adapted_layers(graph, config, settings)) {
    fill_norms(graph, layer, settings.init.empty(), executor);
  }
}

Bytes adapter_heap(const Graph& graph) {
  Bytes most;
  for (const ValueId id : graph.parameters()) {
    const std::string& name = graph.values[id].name.text();
    if (!graph.values[id].parameter->adapter || !name.ends_with(".lora_norms")) continue;
    const std::string module = name.substr(0, name.rfind('.'));
    const cpu::RowNorms norms = row_norms_of(graph, module, 1);
    const Bytes numbers{4 * (norms.rank * (norms.rows + norms.columns) + norms.rows)};  // A, B and the norms
    most = std::max(most, numbers + norms.scratch(/*in_parts=*/true));
  }
  return most;
}

std::string adapter_hash(const SafetensorsFile& file) {
  std::map<std::string, const StoredTensor*> sorted;
  for (const StoredTensor& tensor : file.tensors()) sorted.emplace(tensor.name, &tensor);
  Hasher hasher;
  for (const auto& [name, tensor] : sorted) {
    hasher.add(std::as_bytes(std::span(name)));
    for_pieces(file, *tensor, [&](std::span<const std::byte> part) { hasher.add(part); });
  }
  return hasher.hex();
}

std::string adapter_hash(const fs::path& folder) { return adapter_hash(open_adapter(folder)); }

void refuse_twice(const fs::path& base, const fs::path& adapter) {
  if (base.empty() || !is_there(base / kMergedFile)) return;
  const nlohmann::json merged = read_json_object(base / kMergedFile, JsonLimits{}, "E-ADAPTER-FOLDER");
  const nlohmann::json list = merged.value("adapters", nlohmann::json::array());
  const std::string hash = adapter_hash(adapter);
  for (const nlohmann::json& each : list) {
    if (each != nlohmann::json(hash)) continue;
    throw data_error("E-ADAPTER-TWICE", base.string(), fmt::format("the adapter in {} has been merged into it", adapter.string()),
                     "the base without the adapter, or the merged model alone",
                     {Remedy(Change("command.weights", base.string()), "without an adapter")});
  }
}

}  // namespace plimsoll
