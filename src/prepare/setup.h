// From a configuration to what planner and trainer need: the model's graph for any micro-batch, the request, the data.
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

// What graph and plan depend on beside the configuration.
struct DataFacts {
  std::int64_t bytes_per_token = 1;
  bool validation = false;
  std::int64_t bytes_per_row = 0;       // of data that are no stream of tokens: raw, in staging
  bool packed = false;                  // rows hold several samples
  std::optional<RaggedWindows> ragged;  // windows have different numbers of rows

  // Micro-steps of a window, at the most.
  std::int64_t most_steps(const Config& config, std::int64_t micro_batch) const;
};

struct TrainingGraph {
  Graph graph;
  // What is fed, and the losses; in `micro` their sums over a window, and no losses of single samples, which the gradient makes.
  Pass micro;
  std::optional<Pass> evaluate;
  TrainingValues training;
  std::optional<UnderflowMeter> underflow;  // of fp16
  std::array<ValueId, 2> staging;           // raw bytes of a micro-batch, one filled while the other is unpacked
};

TrainingGraph build_training_graph(const Config& config, DataFacts data, std::int64_t micro_batch);
// The same of the forward passes that a family has built.
TrainingGraph train_graph(const Config& config, ModelGraph model, DataFacts data, std::int64_t micro_batch);

// The graph of one section alone, for commands that only need weights, with an adapter where one is given.
struct InferenceGraph {
  ModelGraph model;
  std::array<ValueId, 2> staging;
};
// `base`: how linear layers are stored, of which none is trained here. `packed`: rows hold several samples.
InferenceGraph build_evaluation_graph(const ModelConfig& model, std::int64_t tokens, std::int64_t bytes_per_token,
                                      std::int64_t batch, const AdapterSettings& adapter = {}, const FrozenBase& base = {},
                                      bool packed = false);
InferenceGraph build_generation_graph(const ModelConfig& model, const GenerationShape& shape, const AdapterSettings& adapter = {},
                                      const FrozenBase& base = {});
InferenceGraph build_forward_graph(const ModelConfig& model, std::int64_t tokens, const ForwardShape& shape,
                                   const AdapterSettings& adapter = {}, const FrozenBase& base = {});
// Of the weights of a model in that folder; none is random numbers. What is stored there as nf4 already keeps its kind of scales.
// Of `file` from the headers of the files: E-CONFIG-CONFLICT where there are none.
FrozenBase base_of(BaseFormat format, const ModelConfig& model, const std::filesystem::path& folder);

struct DataFiles {
  TokenFile train;
  std::optional<TokenFile> validation;
  // Of streams of tokens.
  DataFacts facts() const;
};
// What planning takes for granted of a data file that is not there.
struct AssumedData {
  std::string key, path, format;
  std::int64_t bytes_per_token = 1;
  bool there = false;  // it has not been rendered yet
};
// Empty where every file is there. One that is there and cannot be opened is none of these.
std::vector<AssumedData> assume_missing_data(const Config& config);
// Whether the data are samples of their own lengths.
bool has_samples(const Config& config);
// `cache` may be empty where nothing is kept.
SampleRequest sample_request(const Config& config, const DataPaths& paths, double held_out, const CacheFolders& folders);
// Whether they have been made from these data; true of other data.
bool samples_are_made(const Config& config, const std::filesystem::path& cache);

// `cache`: folder for token files of text that goes through a vocabulary; `elsewhere`: for them where that cannot be written.
TokenFile open_data_file(const Config& config, const DataPaths& paths, const std::filesystem::path& cache,
                         const std::filesystem::path& elsewhere = {});
DataFiles open_data(const Config& config, const std::filesystem::path& cache, const std::filesystem::path& elsewhere = {});

}  // namespace plimsoll
