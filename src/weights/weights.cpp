#include "weights/weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "device/cpu/parallel.h"
#include "formats/finite.h"
#include "formats/weight_files.h"
#include "graph/builder.h"
#include "models/all.h"
#include "models/gguf.h"
#include "tensor/half.h"
#include "weights/block_stream.h"
#include "weights/file_order.h"
#include "weights/stored_blocks.h"

namespace plimsoll {
namespace {

// Two normal numbers from two words (Box and Muller, 1958), in fp64.
std::array<double, 2> normal_pair(std::uint32_t a, std::uint32_t b) {
  const double u = (static_cast<double>(a) + 1) * 0x1p-32, angle = 2 * std::numbers::pi * static_cast<double>(b) * 0x1p-32;
  const double radius = std::sqrt(-2 * std::log(u));
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Four numbers per block of random words, by of_words(words). `values` begin with number `first` of the sequence, a multiple
// of 4.
template <class OfWords>
void fill_random(std::span<float> values, std::int64_t first, std::array<std::uint32_t, 2> key, OfWords of_words) {
  constexpr std::int64_t kPiece = 1 << 14;
  ensure(first % 4 == 0, "weights", "a part begins within a block of random numbers");
  const auto n = static_cast<std::int64_t>(values.size());
  cpu::parallel_for((n + kPiece - 1) / kPiece, [&](std::int64_t piece) {
    for (std::int64_t i = piece * kPiece; i < std::min(n, (piece + 1) * kPiece); i += 4) {
      const auto block = static_cast<std::uint64_t>((first + i) / 4);
      const PhiloxWords words =
          philox4x32(key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
      const std::array<double, 4> four = of_words(words);
      for (std::int64_t j = 0; j < std::min<std::int64_t>(4, n - i); ++j) {
        values[static_cast<std::size_t>(i + j)] = static_cast<float>(four[static_cast<std::size_t>(j)]);
      }
    }
  });
}

void fill_normal(std::span<float> values, std::int64_t first, double std, std::array<std::uint32_t, 2> key) {
  fill_random(values, first, key, [std](const PhiloxWords& words) {
    const auto low = normal_pair(words[0], words[1]), high = normal_pair(words[2], words[3]);
    return std::array{std * low[0], std * low[1], std * high[0], std * high[1]};
  });
}

// Numbers in (-b, b) with b = sqrt(3) * std.
void fill_uniform(std::span<float> values, std::int64_t first, double std, std::array<std::uint32_t, 2> key) {
  fill_random(values, first, key, [bound = std * std::numbers::sqrt3](const PhiloxWords& words) {
    std::array<double, 4> four{};
    for (std::size_t i = 0; i < four.size(); ++i) four[i] = bound * ((static_cast<double>(words[i]) + 0.5) * 0x1p-31 - 1);
    return four;
  });
}

std::span<float> floats_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Calls fill(numbers, first) for a part of a parameter in fp32; `first`: the index of its first element, a multiple of 4. Narrow
// types go through a small buffer with rounding to nearest even.
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

// Fills a parameter of any storage format with the numbers of fill(numbers, first).
template <class Fill>
void fill_parameter(ValueId id, const Value& value, Executor& executor, Fill fill, Hasher* hasher = nullptr) {
  const auto filled = [&](std::span<const std::byte> part) {
    if (hasher != nullptr) hasher->add(part);
  };
  if (value.parameter->blocks) {
    BlockStream stream(*value.parameter->blocks, [&](std::int64_t first, std::span<float> out) { fill(out, first); });
    executor.write(id, [&](std::span<std::byte> part) {
      stream.next(part);
      filled(part);
    });
    return;
  }
  std::int64_t done = 0;
  executor.write(id, [&](std::span<std::byte> part) {
    fill_part(part, value.type.dtype, done, fill);
    done += std::ssize(part) / size_of(value.type.dtype);
    filled(part);
  });
}

void initialize(ValueId id, const Value& value, std::uint64_t seed, Executor& executor, Hasher* hasher) {
  if (value.type.dtype == DType::i64) {  // a count
    return executor.write(id, [&](std::span<std::byte> part) {
      std::ranges::fill(part, std::byte{0});
      if (hasher != nullptr) hasher->add(part);
    });
  }
  const Initializer& initializer = value.parameter->initializer;
  const auto fill = [&](std::span<float> data, std::int64_t first) {
    switch (initializer.kind) {
      case Initializer::Kind::zeros: std::fill(data.begin(), data.end(), 0.0f); break;
      case Initializer::Kind::ones: std::fill(data.begin(), data.end(), 1.0f); break;
      case Initializer::Kind::uniform:
        fill_uniform(data, first, initializer.std, philox_key(seed, random_site(value.name.text())));
        break;
      case Initializer::Kind::normal:
        fill_normal(data, first, initializer.std, philox_key(seed, random_site(value.name.text())));
        break;
    }
  };
  fill_parameter(id, value, executor, fill, hasher);
}

}  // namespace

void initialize_parameters(const Graph& graph, std::uint64_t seed, Executor& executor, Parameters which, Hasher* hasher) {
  for (const ValueId id : graph.parameters()) {
    const Value& value = graph.values[id];
    if (which == Parameters::frozen && !is_frozen(value)) continue;
    if (which == Parameters::adapter && !value.parameter->adapter) continue;
    if (which == Parameters::model && value.parameter->adapter) continue;
    initialize(id, value, seed, executor, hasher);
  }
}

namespace {

// The source of the model's shape.
const char* shape_source(const WeightFiles& files) { return files.gguf() == nullptr ? "config.json" : "its keys"; }

StoredNames stored_names(const Value& value, const ModelConfig& config, const WeightFiles& files) {
  const Family& family = config.family();
  const std::vector<std::string> names = family.stored(config, value.name.text());
  StoredNames stored;
  for (const std::string& name : names) {
    if (const auto found = files.find(name)) stored.found.push_back(*found);
  }
  stored.saved = stored.found.empty() ? names.front() : stored.front().tensor->name;
  // A new parameter may take the place of another one, of any shape.
  if (value.parameter->fresh) return stored;
  // Old files of PyTorch do not count the windows of batch normalisation.
  if (stored.found.empty() && value.type.dtype == DType::i64) return stored;
  if (stored.found.empty()) {
    throw data_error("E-FORMAT-WEIGHTS", files.path(), fmt::format("there is no tensor {}", names.front()),
                     fmt::format("the parameters of a {} with the shape of {}", family.title, shape_source(files)));
  }
  const Shape expected = shape_in_files(value);
  if (stored.found.size() == 1 && expected.rank() == 2) stored.blocks = StoredBlocks::find(files, stored.front());
  for (const WeightFiles::Found& found : stored.found) {
    const Shape shape =
        stored.blocks ? Shape{stored.blocks->matrix().rows, stored.blocks->matrix().columns} : found.tensor->shape;
    if (shape != expected) {
      throw data_error("E-FORMAT-WEIGHTS", files.path_of(found), fmt::format("{} is {}", found.tensor->name, to_text(shape)),
                       fmt::format("{}, as {} says", to_text(expected), shape_source(files)));
    }
    if (!stored.blocks && value.type.dtype != DType::i64) files.require_readable(found);
  }
  return stored;
}

// Files of a model without a head have names without a prefix, which transformers does not read beside those of a head.
void add_prefixes(std::vector<StoredNames>& all, const Graph& graph, const ModelConfig& config) {
  auto stored = all.begin();
  for (const ValueId id : graph.parameters()) {
    if (graph.values[id].parameter->adapter) continue;
    std::string& saved = (stored++)->saved;
    const std::vector<std::string> names = config.family().stored(config, graph.values[id].name.text());
    const auto longer = std::ranges::find_if(names, [&](const std::string& name) { return name.ends_with("." + saved); });
    if (longer != names.end()) saved = *longer;
  }
}

}  // namespace

std::vector<StoredNames> stored_parameters(const Graph& graph, const ModelConfig& config, const WeightFiles& files) {
  const Family& family = config.family();
  std::set<std::string_view> taken;
  std::vector<StoredNames> result;
  std::vector<std::string> beside;  // of blocks
  bool adds_head = false;
  for (const ValueId id : graph.parameters()) {
    if (graph.values[id].parameter->adapter) continue;
    result.push_back(stored_names(graph.values[id], config, files));
    adds_head = adds_head || (graph.values[id].parameter->fresh && result.back().found.empty());
    for (const WeightFiles::Found& found : result.back().found) taken.insert(found.tensor->name);
    if (const auto& blocks = result.back().blocks) beside.insert(beside.end(), blocks->others().begin(), blocks->others().end());
  }
  taken.insert(beside.begin(), beside.end());
  // Layers past those of config.json would be left out silently, and the model would be another one.
  for (const WeightFiles::Found& found : files.all()) {
    const std::string& name = found.tensor->name;
    if (taken.contains(name) || (family.ignored != nullptr && family.ignored(name))) continue;
    throw data_error("E-FORMAT-WEIGHTS", files.path_of(found),
                     fmt::format("the model of {} has no parameter {}", shape_source(files), name),
                     fmt::format("the parameters of a {} with the shape of {}, and no more", family.title, shape_source(files)));
  }
  if (adds_head) add_prefixes(result, graph, config);
  return result;
}

namespace {

constexpr std::size_t kStaging = 1 << 16;

// E-FORMAT-TIE if the numbers differ from those of the first name.
void compare_tied(const WeightFiles& files, const StoredNames& stored) {
  constexpr std::int64_t kPiece = 1 << 12;
  if (stored.found.size() < 2) return;
  const WeightFiles::Found& first = stored.front();
  std::array<float, kPiece> of_first, of_other;
  std::array<std::byte, kPiece * sizeof(float)> staging;
  for (const WeightFiles::Found& other : std::span(stored.found).subspan(1)) {
    const std::int64_t elements = first.tensor->shape.elements();
    for (std::int64_t at = 0; at < elements; at += kPiece) {
      const auto count = static_cast<std::size_t>(std::min(kPiece, elements - at));
      files.read_f32(first, at, std::span(of_first).first(count), staging);
      files.read_f32(other, at, std::span(of_other).first(count), staging);
      if (std::memcmp(of_first.data(), of_other.data(), count * sizeof(float)) == 0) continue;
      for (std::size_t i = 0; i < count; ++i) {
        const float a = of_first[i], b = of_other[i];
        if (a == b || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b)) continue;
        throw data_error(
            "E-FORMAT-TIE", files.path(),
            fmt::format("{} and {} are one parameter and differ: at {} they are {} and {}", first.tensor->name,
                        other.tensor->name, place_text(first.tensor->shape, at + static_cast<std::int64_t>(i)), a, b),
            "the same numbers, or two parameters",
            {"set tie_word_embeddings to false in config.json, if the head has separate weights"});
      }
    }
    files.forget(other);
  }
  files.forget(first);
}

// Loads blocks unchanged if the parameter has the same format, else as decoded numbers.
void load_blocks(ValueId id, const Value& value, StoredBlocks blocks, Executor& executor, Hasher* hasher) {
  blocks.load_scales();
  if (value.parameter->blocks == blocks.matrix()) {
    std::int64_t done = 0;
    executor.write(id, [&](std::span<std::byte> part) {
      blocks.read_stored(done, part);
      done += std::ssize(part);
      if (hasher != nullptr) hasher->add(part);
    });
    return;
  }
  fill_parameter(
      id, value, executor, [&](std::span<float> data, std::int64_t first) { blocks.read(first, data); }, hasher);
}

// Fills a convolution's weights, part by part. Each part reads all rows of the file, so that a buffer of rows is enough.
void load_in_order(ValueId id, const Value& value, const WeightFiles& files, const WeightFiles::Found& found, Executor& executor,
                   std::span<std::byte> staging, Hasher* hasher) {
  constexpr std::size_t kPiece = 1 << 18;  // elements of a narrow type at a time
  const FileOrder order(*value.parameter->in_files);
  std::vector<float> row(static_cast<std::size_t>(order.row())), wide;
  const auto fill = [&](std::span<float> data, std::int64_t first) {
    for (std::int64_t output = 0; output < order.outputs(); ++output) {
      files.read_f32(found, output * order.row(), row, staging);
      order.for_each(output, first, first + std::ssize(data), [&](std::int64_t place, std::int64_t element) {
        data[static_cast<std::size_t>(element - first)] = row[static_cast<std::size_t>(place)];
      });
    }
  };
  std::int64_t done = 0;
  executor.write(id, [&](std::span<std::byte> part) {
    const auto size = static_cast<std::size_t>(size_of(value.type.dtype));
    if (value.type.dtype == DType::f32) {
      fill(floats_of(part), done);
    } else {
      for (std::size_t at = 0; at < part.size() / size; at += wide.size()) {
        wide.resize(std::min(kPiece, part.size() / size - at));
        fill(wide, done + static_cast<std::int64_t>(at));
        narrow(value.type.dtype, wide, part.data() + at * size);
      }
    }
    done += static_cast<std::int64_t>(part.size() / size);
    if (hasher != nullptr) hasher->add(part);
  });
}

// A whole number.
void load_number(ValueId id, const WeightFiles& files, const WeightFiles::Found& found, Executor& executor, Hasher* hasher) {
  ensure(files.gguf() == nullptr, "weights", "GGUF files hold no whole numbers");
  if (found.tensor->stored_as != "I64") {
    throw data_error("E-FORMAT-TENSOR", files.path_of(found),
                     fmt::format("tensor '{}' is stored as {}", found.tensor->name, found.tensor->stored_as), "I64");
  }
  executor.write(id, [&](std::span<std::byte> part) {
    files.files()[found.file].read_into(*found.tensor, part);
    std::int64_t count = 0;
    std::memcpy(&count, part.data(), sizeof count);
    if (count < 0 || count > std::numeric_limits<std::int64_t>::max() / 2) {
      throw data_error("E-FORMAT-TENSOR", files.path_of(found), fmt::format("{} is {}", found.tensor->name, count), "a count");
    }
    if (hasher != nullptr) hasher->add(part);
  });
}

void load_numbers(ValueId id, const Value& value, const WeightFiles& files, const WeightFiles::Found& found, Executor& executor,
                  std::span<std::byte> staging, Hasher* hasher) {
  if (value.type.dtype == DType::i64) return load_number(id, files, found, executor, hasher);
  if (value.parameter->in_files) return load_in_order(id, value, files, found, executor, staging, hasher);
  const auto read = [&](std::span<float> data, std::int64_t first) { files.read_f32(found, first, data, staging); };
  fill_parameter(id, value, executor, read, hasher);
}

// Files without a parameter are left out. Weights from a GGUF file are saved like new ones.
WeightLayout layout_in(const Graph& graph, const WeightFiles& files, const std::vector<StoredNames>& stored) {
  if (files.gguf() != nullptr) return {};
  WeightLayout layout{files.has_index(), {}, {}};
  std::vector<std::optional<std::size_t>> places(files.files().size());
  for (const StoredNames& names : stored) {
    if (!names.found.empty()) places[names.front().file] = 0;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) continue;
    places[i] = layout.files.size();
    layout.files.push_back(files.names()[i]);
  }
  auto names = stored.begin();
  for (const ValueId id : graph.parameters()) {
    const Value& value = graph.values[id];
    if (value.parameter->adapter) continue;
    const StoredNames& each = *names++;
    if (each.found.empty()) {
      layout.parameters.push_back({each.saved, value.type.dtype, 0});
      continue;
    }
    const DType dtype = each.blocks ? DType::bf16 : each.front().tensor->dtype.value_or(value.type.dtype);
    layout.parameters.push_back({each.saved, dtype, *places[each.front().file]});
  }
  return layout;
}

}  // namespace

void check_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder) {
  const WeightFiles files = weights_of_model(folder);
  for (const StoredNames& stored : stored_parameters(graph, config, files)) compare_tied(files, stored);
}

WeightLayout layout_of(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder) {
  const WeightFiles files = weights_of_model(folder);
  return layout_in(graph, files, stored_parameters(graph, config, files));
}

void load_parameter(const SafetensorsFile& file, const StoredTensor& tensor, const Graph& graph, ValueId parameter,
                    Executor& executor) {
  std::array<std::byte, kStaging> staging;
  fill_parameter(parameter, graph.values[parameter], executor,
                 [&](std::span<float> data, std::int64_t first) { file.read_f32(tensor, first, data, staging); });
  file.forget(tensor);
}

WeightLayout load_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder, Executor& executor,
                          Parameters which, Hasher* hasher, std::uint64_t seed) {
  const WeightFiles files = weights_of_model(folder);
  const std::vector<StoredNames> stored = stored_parameters(graph, config, files);
  std::array<std::byte, kStaging> staging;
  std::size_t next = 0;
  for (const ValueId id : graph.parameters()) {
    const Value& value = graph.values[id];
    if (value.parameter->adapter) continue;
    const StoredNames& names = stored[next++];
    if (which == Parameters::frozen && !is_frozen(value)) continue;
    if (value.parameter->fresh || names.found.empty()) {
      initialize(id, value, seed, executor, hasher);
      continue;
    }
    compare_tied(files, names);
    if (names.blocks) {
      load_blocks(id, value, *names.blocks, executor, hasher);
    } else {
      load_numbers(id, value, files, names.front(), executor, staging, hasher);
    }
    files.forget(names.front());
  }
  files.forget();
  return layout_in(graph, files, stored);
}

WeightLayout fill_parameters(const Graph& graph, const WeightSource& source, Executor& executor, Parameters which,
                             Hasher* hasher) {
  if (!source.folder.empty()) {
    return load_weights(graph, read_model(source.folder), source.folder, executor, which, hasher, source.seed);
  }
  initialize_parameters(graph, source.seed, executor, which, hasher);
  return {};
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
    if (const std::string* known = executor.written_hash(id)) {
      hashes.push_back(*known);
      continue;
    }
    Hasher hasher;
    executor.read(id, [&](std::span<const std::byte> part) { hasher.add(part); });
    hashes.push_back(hasher.hex());
  }
  return hashes;
}

}  // namespace plimsoll
