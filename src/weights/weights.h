// Filling and saving weights on any tier of a program: new ones from counter-based random numbers, loading from a Hugging Face
// folder, and saving to a folder for other tools. Nothing of a tensor's size is allocated.
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

// Each parameter has its own Philox site (its name), so the values depend on the seed alone.
// `hasher`, here and below: gets the filled bytes in the order of the graph.
void initialize_parameters(const Graph& graph, std::uint64_t seed, Executor& executor, Parameters which = Parameters::all,
                           Hasher* hasher = nullptr);
// `seed`: of new parameters (ParameterInfo::fresh). Fills all others but those of an adapter from the files of the folder
// (formats/weight_files.h), and returns their layout. Nothing stays in the page cache. data_error E-FORMAT-WEIGHTS names a
// missing, misshapen or unknown tensor, E-FORMAT-TIE two names of one parameter with different numbers, E-FORMAT-NAN a NaN or
// infinity.
WeightLayout load_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder, Executor& executor,
                          Parameters which = Parameters::model, Hasher* hasher = nullptr, std::uint64_t seed = 0);

// A parameter in the files of a model, under its names: the first one is read, others are tied to it. A parameter in blocks has
// one name, a new one (ParameterInfo::fresh) perhaps none.
struct StoredNames {
  std::vector<WeightFiles::Found> found;
  std::string saved;  // its name in files that are written
  std::optional<StoredBlocks> blocks;

  const WeightFiles::Found& front() const { return found.front(); }
};
// The parameters in the order of the graph, without those of an adapter.
std::vector<StoredNames> stored_parameters(const Graph& graph, const ModelConfig& config, const WeightFiles& files);
// Fills one parameter from a tensor of its shape.
void load_parameter(const SafetensorsFile& file, const StoredTensor& tensor, const Graph& graph, ValueId parameter,
                    Executor& executor);

// The source of initial parameters.
struct WeightSource {
  std::filesystem::path folder;  // of a Hugging Face model; empty: random numbers
  std::uint64_t seed = 0;        // of random numbers, also of new parameters beside those of a folder
};
// Fills the parameters `which` from the source.
WeightLayout fill_parameters(const Graph& graph, const WeightSource& source, Executor& executor,
                             Parameters which = Parameters::model, Hasher* hasher = nullptr);
// Throws the errors of load_weights. Reads headers and tied tensors.
void check_weights(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder);
// The result of load_weights, from headers alone.
WeightLayout layout_of(const Graph& graph, const ModelConfig& config, const std::filesystem::path& folder);

struct SaveOptions {
  bool averages = false;         // averages in place of parameters that have one
  std::filesystem::path beside;  // source of the other files; empty: the folder itself
  // For a graph with an adapter, which is saved alone: its settings, and the folder of its base.
  const AdapterSettings* adapter = nullptr;
  std::filesystem::path base = {};
  // The name and the text of one more file; an empty name: none.
  std::string note = {}, note_text = {};
};
// Writes the files of the layout, their index and config.json, or the file and adapter_config.json of an adapter, and takes over
// the other files. The folder is replaced as a whole (formats/atomic_folder.h) or stays unchanged.
void save_weights(const Graph& graph, const ModelConfig& config, const WeightLayout& layout, const std::filesystem::path& folder,
                  const Executor& executor, const SaveOptions& options = {});
// The bytes of all files with their index, and of the largest one.
struct WeightsBytes {
  Bytes all, largest;
};
WeightsBytes weights_bytes(const Graph& graph, const ModelConfig& config, const WeightLayout& layout, bool averages = false);
// True if a trained parameter is saved in a narrower type.
bool rounds_weights(const Graph& graph, const ModelConfig& config, const WeightLayout& layout);
// XXH3-128 over the parameters' bytes in the order of the graph.
std::string parameters_hash(const Graph& graph, const Executor& executor);
// The hash of each value, in the same order; of values that nothing changes.
std::vector<std::string> hashes_of(const std::vector<ValueId>& values, const Executor& executor);

}  // namespace plimsoll
