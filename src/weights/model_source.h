// The weights that a command opens: a folder of a model, perhaps with an adapter, which names its base. All commands open models
// here, so that they refuse the same files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "adapters/settings.h"
#include "models/model_config.h"
#include "weights/adapter_weights.h"

namespace plimsoll {

struct ModelSource {
  std::filesystem::path folder;  // of the model, the base of the adapter
  ModelConfig model;
  AdapterSettings adapter;

  // The folder of the tokenizer: the adapter's if it was saved with one, else the model's.
  std::filesystem::path tokenizer() const;
  // The tokens that end generation, from the adapter's generation_config.json, else from the model's.
  std::vector<std::int64_t> ends() const;
};

// `weights` and `adapter`: the user's paths, each a folder or the folder of a run, or empty. Weights may be an adapter alone.
// Calls check_model, which costs less than planning. E-USAGE: both are empty. E-ADAPTER-BASE: the base is absent.
ModelSource find_model(const std::string& weights, const std::string& adapter, TiedTables tied = TiedTables::equal);

// Checks that the files match their configurations. Throws the errors of loading except that for NaN and infinity, which takes
// reading all numbers. An empty folder stands for random numbers.
void check_model(const ModelSource& source, TiedTables tied = TiedTables::equal);

}  // namespace plimsoll
