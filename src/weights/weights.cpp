#include "weights/weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>
#include <system_error>
#include <vector>

#include "autodiff/training.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "device/cpu/parallel.h"
#include "formats/safetensors.h"
#include "graph/builder.h"
#include "models/all.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

// Two normal numbers from two words (Box and Muller, 1958), in fp64.
std::array<double, 2> normal_pair(std::uint32_t a, std::uint32_t b) {
  const double u = (static_cast<double>(a) + 1) * 0x1p-32, angle = 2 * std::numbers::pi * static_cast<double>(b) * 0x1p-32;
  const double radius = std::sqrt(-2 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// `values` begin with number `first` of the sequence, a multiple of 4.
void fill_normal(std::span<float> values, std::int64_t first, double std, std::array<std::uint32_t, 2> key) {
  constexpr std::int64_t kPiece = 1 << 14;
  ensure(first % 4 == 0, "weights", "a part begins within a block of random numbers");
  const auto n = static_cast<std::int64_t>(values.size());
  cpu::parallel_for((n + kPiece - 1) / kPiece, [&](std::int64_t piece) {
    for (std::int64_t i = piece * kPiece; i < std::min(n, (piece + 1) * kPiece); i += 4) {
      const auto block = static_cast<std::uint64_t>((first + i) / 4);
      const PhiloxWords words =
          philox4x32(key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
      const auto low = normal_pair(words[0], words[1]), high = normal_pair(words[2], words[3]);
      const std::array four{low[0], low[1], high[0], high[1]};
      for (std::int64_t j = 0; j < std::min<std::int64_t>(4, n - i); ++j) {
        values[static_cast<std::size_t>(i + j)] = static_cast<float>(std * four[static_cast<std::size_t>(j)]);
      }
    }
  });
}

std::span<float> floats_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Calls fill(numbers, first) for what a part of a parameter holds, in fp32; `first`: the number of its first element, a multiple
// of
// 4. What is narrow goes through a small buffer, and is rounded to nearest even.
template <class Fill>
void fill_part(std::span<std::byte> part, DType dtype, std::int64_t first, Fill fill) {
  if (dtype == DType::f32) return fill(floats_of(part), first);
  ensure(dtype == DType::bf16, "weights", "parameters are fp32 or bf16");
  constexpr std::size_t kPiece = 1 << 12;
  std::array<float, kPiece> numbers;
  auto* narrow = reinterpret_cast<std::uint16_t*>(part.data());
  const std::size_t count = part.size() / sizeof(std::uint16_t);
  for (std::size_t at = 0; at < count; at += kPiece) {
    const std::span<float> piece = std::span(numbers).first(std::min(kPiece, count - at));
    fill(piece, first + static_cast<std::int64_t>(at));
    std::transform(piece.begin(), piece.end(), narrow + at, narrow_bf16);
  }
}

}  // namespace

void initialize_parameters(const Graph& graph, std::uint64_t seed, Executor& executor, Parameters which) {
  for (const ValueId id : graph.parameters()) {
    const Value& value = graph.values[id];
    if (which == Parameters::frozen && !is_frozen(value)) continue;
    const Initializer& initializer = value.parameter->initializer;
    std::int64_t done = 0;
    executor.write(id, [&](std::span<std::byte> part) {
      fill_part(part, value.type.dtype, done, [&](std::span<float> data, std::int64_t first) {
        switch (initializer.kind) {
          case Initializer::Kind::zeros: std::fill(data.begin(), data.end(), 0.0f); break;
          case Initializer::Kind::ones: std::fill(data.begin(), data.end(), 1.0f); break;
          case Initializer::Kind::normal:
            fill_normal(data, first, initializer.std, philox_key(seed, random_site(value.name.text())));
            break;
        }
      });
      done += std::ssize(part) / size_of(value.type.dtype);
    });
  }
}

namespace {

constexpr const char* kWeightsFile = "model.safetensors";
std::string convert_command(const std::filesystem::path& folder) {
  return fmt::format(
      "python3 -c \"from transformers import AutoModelForCausalLM as M; "
      "M.from_pretrained('{}').save_pretrained('NEW_FOLDER', max_shard_size='1000GB')\"",
      folder.string());
}

// What lies in a folder in place of model.safetensors, by the first name that is found; why it is not read.
Error no_weights(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  const auto first = [&](std::initializer_list<std::string_view> endings) {
    const auto found = std::ranges::find_if(names, [&](const std::string& name) {
      return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
    });
    return found == names.end() ? std::string() : *found;
  };
  std::string why = "there is no model.safetensors";
  std::vector<std::string> remedies;
  if (const std::string shard = first({".safetensors.index.json", ".safetensors"}); !shard.empty()) {
    why += fmt::format(", but {}: weights in several files are not read", shard);
    remedies.push_back(convert_command(folder));
  } else if (const std::string other = first({".bin", ".bin.index.json", ".pt", ".pth", ".h5", ".msgpack", ".gguf"});
             !other.empty()) {
    why += fmt::format(", but {}, which is not read", other);
    remedies.push_back(convert_command(folder));
  }
  return data_error("E-FORMAT-WEIGHTS", folder.string(), why, "all weights in one file, model.safetensors", remedies);
}

// The stored tensor of each parameter, in the order of the graph.
std::vector<const StoredTensor*> stored_parameters(const Graph& graph, const ModelConfig& config, const SafetensorsFile& file) {
  const Family& family = config.family();
  std::set<std::string_view> taken;
  std::vector<const StoredTensor*> result;
  for (const ValueId id : graph.parameters()) {
    const Value& value = graph.values[id];
    const StoredTensor* found = nullptr;
    for (const std::string& name : family.stored(config, value.name.text())) {
      const StoredTensor* other = file.find(name);
      if (other == nullptr) continue;
      if (found != nullptr) {
        throw data_error("E-FORMAT-WEIGHTS", file.path(), fmt::format("{} and {} are the same parameter", found->name, name),
                         "each parameter once, under one of its names");
      }
      found = other;
    }
    if (found == nullptr) {
      throw data_error("E-FORMAT-WEIGHTS", file.path(), fmt::format("there is no tensor {}", value.name.text()),
                       fmt::format("the parameters of a {} with the shape of config.json", family.title));
    }
    if (found->shape != value.type.shape) {
      throw data_error("E-FORMAT-WEIGHTS", file.path(), fmt::format("{} is {}", found->name, to_text(found->shape)),
                       fmt::format("{}, as config.json says", to_text(value.type.shape)));
    }
    require_readable(file, *found);
    taken.insert(found->name);
    result.push_back(found);
  }
  // Blocks past those of config.json would be left out silently, and the model would be another one.
  for (const StoredTensor& tensor : file.tensors()) {
    if (taken.contains(tensor.name) || family.ignored(tensor.name)) continue;
    throw data_error("E-FORMAT-WEIGHTS", file.path(), fmt::format("the model of config.json has no parameter {}", tensor.name),
                     fmt::format("the parameters of a {} with the shape of config.json, and no more", family.title));
  }
  return result;
}

SafetensorsFile open_weights(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder / kWeightsFile, ignored)) throw no_weights(folder);
  return SafetensorsFile::open(folder / kWeightsFile);
}

}  // namespace

void check_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder) {
  stored_parameters(graph, config, open_weights(folder));
}

void load_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder, Executor& executor,
                  Parameters which) {
  const SafetensorsFile file = open_weights(folder);
  const std::vector<const StoredTensor*> stored = stored_parameters(graph, config, file);
  std::array<std::byte, 1 << 16> staging;
  std::size_t next = 0;
  for (const ValueId id : graph.parameters()) {
    const Value& value = graph.values[id];
    const StoredTensor& tensor = *stored[next++];
    if (which == Parameters::frozen && !is_frozen(value)) continue;
    std::int64_t done = 0;
    executor.write(id, [&](std::span<std::byte> part) {
      fill_part(part, value.type.dtype, done,
                [&](std::span<float> data, std::int64_t first) { file.read_f32(tensor, first, data, staging); });
      done += std::ssize(part) / size_of(value.type.dtype);
    });
  }
}

void fill_parameters(const Graph& graph, const WeightSource& source, Executor& executor, Parameters which) {
  if (source.folder.empty()) return initialize_parameters(graph, source.seed, executor, which);
  load_weights(graph, read_model(source.folder), source.folder, executor, which);
}

namespace {

// The parameter, or its average where it has one.
ValueId saved_for(const Graph& graph, ValueId parameter, bool averages) {
  const ValueId average = averages ? graph.find(graph.values[parameter].name.text() + "." + kAverageName) : ValueId{};
  return average.valid() ? average : parameter;
}

std::string stored_name(const ModelConfig& config, const Value& parameter) {
  return config.family().stored(config, parameter.name.text()).front();
}

std::vector<TensorSpec> saved_tensors(const Graph& graph, const ModelConfig& config, bool averages) {
  std::vector<TensorSpec> specs;
  for (const ValueId id : graph.parameters()) {
    const Value& saved = graph.values[saved_for(graph, id, averages)];
    specs.push_back({stored_name(config, graph.values[id]), saved.type.dtype, graph.values[id].type.shape});
  }
  return specs;
}

}  // namespace

Bytes weights_bytes(const Graph& graph, const ModelConfig& config, bool averages) {
  return safetensors_bytes(saved_tensors(graph, config, averages));
}

void save_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder, const Executor& executor,
                  bool averages) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw data_error("E-IO-WRITE", folder.string(), "the folder cannot be created: " + error.message());
  SafetensorsWriter writer(folder / "model.safetensors", saved_tensors(graph, config, averages));
  for (const ValueId id : graph.parameters()) {
    executor.read(saved_for(graph, id, averages),
                  [&](std::span<const std::byte> part) { writer.append(stored_name(config, graph.values[id]), part); });
  }
  writer.commit();
  config.family().write(config, folder);
}

std::string parameters_hash(const Graph& graph, const Executor& executor) {
  Hasher hasher;
  for (const ValueId id : graph.parameters()) {
    executor.read(id, [&](std::span<const std::byte> part) { hasher.add(part); });
  }
  return hasher.hex();
}

std::vector<std::string> hashes_of(const std::vector<ValueId>& values, const Executor& executor) {
  std::vector<std::string> hashes;
  for (const ValueId id : values) {
    Hasher hasher;
    executor.read(id, [&](std::span<const std::byte> part) { hasher.add(part); });
    hashes.push_back(hasher.hex());
  }
  return hashes;
}

}  // namespace plimsoll
