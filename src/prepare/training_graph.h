// The input of planner and trainer from a configuration: the model's graph for any micro-batch.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "adapters/settings.h"
#include "autodiff/frozen_base.h"
#include "autodiff/noise.h"
#include "autodiff/precision.h"
#include "autodiff/sharding.h"
#include "autodiff/training.h"
#include "config/config.h"
#include "data/data_set.h"
#include "models/model_config.h"
#include "models/model_graph.h"

namespace plimsoll {

// The inputs of graph and plan in addition to the configuration.
struct DataFacts {
  RowShape row;
  bool validation = false;
  bool packed = false;                  // rows hold several samples
  std::optional<RaggedWindows> ragged;  // windows have different numbers of rows
  RankShare share = {};                 // the rank that trains
  std::optional<std::int64_t> zero;     // the stage of ZeRO of several ranks; absent: the configuration's, or 1
  GenerationShape answers = {};         // of answers to held-out prompts (prepare/answers.h); no rows: none

  // The maximum number of micro-steps of a window, on one rank.
  std::int64_t most_steps(const Config& config, std::int64_t micro_batch) const;
};

struct TrainingGraph {
  Graph graph;
  // Feeds and losses. The totals of `micro` are sums over a window.
  Pass micro;
  std::optional<Pass> evaluate;
  std::vector<Pass> answers;  // "extend" and "decode" if the training answers prompts
  TrainingValues training;
  std::optional<UnderflowMeter> underflow;  // for fp16
  std::optional<NoisePass> noise;           // with train.noise_every
  std::array<ValueId, 2> staging;           // raw bytes of a micro-batch; one is filled while the other is unpacked
  std::vector<ShardedParameter> shards;     // with several ranks
};

TrainingGraph build_training_graph(const Config& config, DataFacts data, std::int64_t micro_batch);
// The same for the forward passes that a family has built.
TrainingGraph train_graph(const Config& config, ModelGraph model, DataFacts data, std::int64_t micro_batch);

// A graph with forward passes alone, for commands that only need weights; with an adapter if one is given.
struct InferenceGraph {
  ModelGraph model;
  std::array<ValueId, 2> staging;
};
// `base`: the storage of the linear layers; no layer is trained here.
InferenceGraph build_evaluation_graph(const ModelConfig& model, std::int64_t tokens, const DataFacts& data, std::int64_t batch,
                                      const AdapterSettings& adapter = {}, const FrozenBase& base = {});
InferenceGraph build_generation_graph(const ModelConfig& model, const GenerationShape& shape, const AdapterSettings& adapter = {},
                                      const FrozenBase& base = {});
// `shape`: its forward pass, with tokens or images.
InferenceGraph build_forward_graph(const ModelConfig& model, const BatchShape& shape, const AdapterSettings& adapter = {},
                                   const FrozenBase& base = {});
// The frozen base for the weights of a model in the folder; without a folder, for random numbers. Weights stored as nf4 keep
// their kind of scales. Format `file` takes the formats from the headers of the files: E-CONFIG-CONFLICT if there are none.
FrozenBase base_of(BaseFormat format, const ModelConfig& model, const std::filesystem::path& folder);

}  // namespace plimsoll
