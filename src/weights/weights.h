// Weights in and out of a program's memory, wherever they rest: fresh ones from counter-based random numbers, ones from a Hugging
// Face folder, and a folder that other tools open. Nothing of a tensor's size is allocated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "adapters/settings.h"
#include "formats/weight_files.h"
#include "graph/graph.h"
#include "models/model_config.h"
#include "run/executor.h"
#include "weights/stored_blocks.h"
#include "weights/weight_layout.h"

namespace plimsoll {

class Hasher;

inline bool is_frozen(const Value& value) { return value.parameter && value.parameter->kind == ParameterKind::frozen; }
enum class Parameters : std::uint8_t { all, model, frozen, adapter };  // model: all but those of an adapter

// Each parameter from its own Philox site (its name), so the values depend on the seed alone.
// `hasher`, here and below: gets the bytes that are filled in, in the order of the graph.
void initialize_parameters(const Graph& graph, std::uint64_t seed, Executor& executor, Parameters which = Parameters::all,
                           Hasher* hasher = nullptr);
// Fills every parameter but those of an adapter from the files of the folder (formats/weight_files.h), and says how they hold
// them. Nothing of what was read stays in the page cache. data_error E-FORMAT-WEIGHTS names a missing, misshapen or unknown
// tensor, E-FORMAT-TIE two names of one parameter with different numbers, E-FORMAT-NAN a number that is none.
WeightLayout load_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder, Executor& executor,
                          Parameters which = Parameters::model, Hasher* hasher = nullptr);

// A parameter in the files of a model, under its names: the first one is read, others are tied to it. What is stored in blocks
// has one name.
struct StoredNames {
  std::vector<WeightFiles::Found> found;
  std::optional<StoredBlocks> blocks;

  const WeightFiles::Found& front() const { return found.front(); }
};
// In the order of the graph, without those of an adapter.
std::vector<StoredNames> stored_parameters(const Graph& graph, const ModelConfig& config, const WeightFiles& files);
// Fills one parameter from a tensor of its shape.
void load_parameter(const SafetensorsFile& file, const StoredTensor& tensor, const Graph& graph, ValueId parameter,
                    Executor& executor);

// What parameters begin as.
struct WeightSource {
  std::filesystem::path folder;  // of a Hugging Face model; empty: random numbers
  std::uint64_t seed = 0;        // of those
};
// Every parameter but those of an adapter; or the frozen ones.
WeightLayout fill_parameters(const Graph& graph, const WeightSource& source, Executor& executor,
                             Parameters which = Parameters::model, Hasher* hasher = nullptr);
// Throws what load_weights would. Reads headers, and the tensors that are tied.
void check_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder);
// What load_weights would return, from headers alone.
WeightLayout layout_of(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder);

struct SaveOptions {
  bool averages = false;         // those of the parameters that have one, instead
  std::filesystem::path beside;  // whose other files are taken over; empty: those of the folder itself
  // Of a graph that has an adapter, which is saved alone: what its configuration says, and the folder of its base.
  const AdapterSettings* adapter = nullptr;
  std::filesystem::path base = {};
};
// Writes the files of the layout, their index and config.json, or of an adapter its file and adapter_config.json, and takes over
// the other files. The folder is replaced as a whole
// (formats/atomic_folder.h) or stays as it was.
void save_weights(const Graph& graph, const ModelConfig& config, const WeightLayout& layout, const std::filesystem::path& folder,
                  const Executor& executor, const SaveOptions& options = {});
// Of these files with their index; the largest of them.
struct WeightsBytes {
  Bytes all, largest;
};
WeightsBytes weights_bytes(const Graph& graph, const ModelConfig& config, const WeightLayout& layout, bool averages = false);
// XXH3-128 over the parameters' bytes in the order of the graph.
std::string parameters_hash(const Graph& graph, const Executor& executor);
// Of each of them by itself, in the same order.
std::vector<std::string> hashes_of(const std::vector<ValueId>& values, const Executor& executor);

}  // namespace plimsoll
