// The input of planner and trainer from a configuration: the model's graph for any micro-batch, and the data.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "adapters/settings.h"
#include "autodiff/frozen_base.h"
#include "autodiff/precision.h"
#include "autodiff/training.h"
#include "config/config.h"
#include "data/cache_folders.h"
#include "data/sample_maker.h"
#include "data/source.h"
#include "models/model_config.h"
#include "models/model_graph.h"

namespace plimsoll {

// The inputs of graph and plan in addition to the configuration.
struct DataFacts {
  std::int64_t bytes_per_token = 1;
  bool validation = false;
  std::int64_t bytes_per_row = 0;       // raw bytes of a row in staging; 0: a stream of tokens
  bool packed = false;                  // rows hold several samples
  std::optional<RaggedWindows> ragged;  // windows have different numbers of rows

  // The maximum number of micro-steps of a window.
  std::int64_t most_steps(const Config& config, std::int64_t micro_batch) const;
};

struct TrainingGraph {
  Graph graph;
  // Feeds and losses. The totals of `micro` are sums over a window.
  Pass micro;
  std::optional<Pass> evaluate;
  TrainingValues training;
  std::optional<UnderflowMeter> underflow;  // for fp16
  std::array<ValueId, 2> staging;           // raw bytes of a micro-batch; one is filled while the other is unpacked
};

TrainingGraph build_training_graph(const Config& config, DataFacts data, std::int64_t micro_batch);
// The same for the forward passes that a family has built.
TrainingGraph train_graph(const Config& config, ModelGraph model, DataFacts data, std::int64_t micro_batch);

// A graph with forward passes alone, for commands that only need weights; with an adapter if one is given.
struct InferenceGraph {
  ModelGraph model;
  std::array<ValueId, 2> staging;
};
// `base`: the storage of the linear layers; no layer is trained here. `packed`: rows hold several samples.
InferenceGraph build_evaluation_graph(const ModelConfig& model, std::int64_t tokens, std::int64_t bytes_per_token,
                                      std::int64_t batch, const AdapterSettings& adapter = {}, const FrozenBase& base = {},
                                      bool packed = false);
InferenceGraph build_generation_graph(const ModelConfig& model, const GenerationShape& shape, const AdapterSettings& adapter = {},
                                      const FrozenBase& base = {});
// `shape`: its forward pass, with tokens or images.
InferenceGraph build_forward_graph(const ModelConfig& model, const BatchShape& shape, const AdapterSettings& adapter = {},
                                   const FrozenBase& base = {});
// The frozen base for the weights of a model in the folder; without a folder, for random numbers. Weights stored as nf4 keep
// their kind of scales. Format `file` takes the formats from the headers of the files: E-CONFIG-CONFLICT if there are none.
FrozenBase base_of(BaseFormat format, const ModelConfig& model, const std::filesystem::path& folder);

struct DataFiles {
  TokenFile train;
  std::optional<TokenFile> validation;
  // The facts of streams of tokens.
  DataFacts facts() const;
};
// The assumptions of planning about a missing data file.
struct AssumedData {
  std::string key, path, format;
  std::int64_t bytes_per_token = 1;
  bool there = false;  // the file exists, but has not been rendered yet
};
// Empty if every file exists. A file that exists but cannot be opened is not listed.
std::vector<AssumedData> assume_missing_data(const Config& config);
// True if the data are samples of their own lengths.
bool has_samples(const Config& config);
// `cache` may be empty if nothing is kept.
SampleRequest sample_request(const Config& config, const DataPaths& paths, double held_out, const CacheFolders& folders);
// True if the samples have been made from these data, and for data of other kinds.
bool samples_are_made(const Config& config, const std::filesystem::path& cache);

// `cache`: folder for token files of text that goes through a vocabulary; `elsewhere`: the folder for them if the cache cannot be
// written.
TokenFile open_data_file(const Config& config, const DataPaths& paths, const std::filesystem::path& cache,
                         const std::filesystem::path& elsewhere = {});
DataFiles open_data(const Config& config, const std::filesystem::path& cache, const std::filesystem::path& elsewhere = {});

}  // namespace plimsoll
