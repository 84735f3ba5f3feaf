// A checkpoint at an update boundary: weights, optimizer state, counters and the place in the data, in one safetensors file that
// appears whole or not at all. Bytes go between file and arena directly; each tensor has a checksum that is compared on the way
// in. A file without checksums, as earlier versions wrote it, is read as it is. Of frozen parameters it has no bytes, but where
// they come from and the hash of each: a resumed run takes them from there again.
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

// What is frozen, from its source to its bytes.
struct FrozenWeights {
  WeightSource source;
  std::vector<std::string> hashes;  // XXH3-128 of each frozen parameter, in the order of the graph
};
// Of what the executor holds, which has come from that source.
FrozenWeights frozen_weights(const Graph& graph, const WeightSource& source, const Executor& executor);

// Parameters and optimizer state come from the executor's tiers, whichever they rest on.
void save_checkpoint(const Graph& graph, const Progress& progress, const FrozenWeights& frozen, const std::filesystem::path& file,
                     const Executor& executor);
// What that file has, or a little more: its counters grow with the run.
Bytes checkpoint_bytes(const Graph& graph);
// Reads the counters alone. data_error E-CKPT-MISSING, E-CKPT-FORMAT, or E-CKPT-CORRUPT where a checksum is another one.
Progress read_progress(const std::filesystem::path& file);
struct Checkpoint {
  Progress progress;
  FrozenWeights frozen;
};
// `init`: where the model that the run began with lies now; empty: random numbers. E-CKPT-FROZEN where frozen parameters are not
// what they were, or their source has gone; E-RESUME where the model is trained, and another folder than that of the checkpoint
// holds other weights than those with which the run began; E-FORMAT-NAN.
Checkpoint load_checkpoint(const Graph& graph, const std::filesystem::path& file, const std::filesystem::path& init,
                           Executor& executor);

}  // namespace plimsoll
