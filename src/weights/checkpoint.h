// A checkpoint at an update boundary, a folder that appears whole or not at all: state.safetensors has weights and optimizer
// state, manifest.json the counters and the position in the data. Bytes go between file and arena directly. Each tensor has a
// checksum that loading compares, and the manifest has one of the header and of itself. For frozen parameters there are their
// source and the hash of each instead of bytes: a resumed run loads them from the source. Format 1, a single safetensors file, is
// read as well. With several ranks, each writes a file of the values and shards that it holds (state-RANK.safetensors), and the
// manifest lists their pieces; any number of ranks reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "run/executor.h"
#include "weights/progress.h"
#include "weights/weights.h"

namespace plimsoll {

// The source of the frozen parameters and the hashes of their bytes.
struct FrozenWeights {
  WeightSource source;
  std::vector<std::string> hashes;  // XXH3-128 of each frozen parameter, in the order of the graph
};
// The frozen parameters in the executor, which were filled from `source`.
FrozenWeights frozen_weights(const Graph& graph, const WeightSource& source, const Executor& executor);

// Reads parameters and optimizer state from any of the executor's tiers. If the executor has peers, all ranks call it, and all
// throw if one of them fails.
void save_checkpoint(const Graph& graph, const Progress& progress, const FrozenWeights& frozen,
                     const std::filesystem::path& folder, const Executor& executor);
// An upper bound of the folder's bytes; its counters grow with the run.
Bytes checkpoint_bytes(const Graph& graph);
// Reads the counters alone. data_error E-CKPT-MISSING, E-CKPT-FORMAT, or E-CKPT-CORRUPT for a wrong checksum.
Progress read_progress(const std::filesystem::path& checkpoint);
// The file with the tensors of a checkpoint.
std::filesystem::path state_file(const std::filesystem::path& checkpoint);
// Reads a new checkpoint once, past the page cache, and compares all checksums. E-CKPT-CORRUPT.
void read_back(const std::filesystem::path& folder);
// Optimizer state in another precision is converted (weights/state_conversion.h).
struct Checkpoint {
  Progress progress;
  FrozenWeights frozen;
};
// `init`: the present folder of the run's initial model; empty: the folder in the checkpoint. E-CKPT-FROZEN: frozen parameters
// have changed, or their source is gone. E-RESUME: parameters of the model are trained, and `init` is another folder whose
// weights are not the initial ones. E-FORMAT-NAN: a saved parameter is NaN or infinite.
Checkpoint load_checkpoint(const Graph& graph, const std::filesystem::path& checkpoint, const std::filesystem::path& init,
                           Executor& executor);

}  // namespace plimsoll
