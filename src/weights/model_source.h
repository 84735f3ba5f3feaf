// The weights that a command opens: a folder of a model, perhaps with an adapter, which knows its base. Whoever opens a model
// does it here, so that all refuse the same files.
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

  // The folder whose tokenizer the model reads with: that of the adapter, if it was saved with one.
  std::filesystem::path tokenizer() const;
  // The tokens at which generation ends, as that of the adapter says, or else that of the model.
  std::vector<std::int64_t> ends() const;
};

// `weights` and `adapter` as they were given, either may be empty: a folder, or that of a run. Weights that are an adapter alone
// count as such. Refuses what check_model refuses, which costs less than planning. E-USAGE where neither is given, E-ADAPTER-BASE
// where the base is not there.
ModelSource find_model(const std::string& weights, const std::string& adapter, TiedTables tied = TiedTables::equal);

// The files of the folders are those of their configurations: what loading would throw, but for numbers that are none, which only
// reading all of them shows. An empty folder holds random numbers.
void check_model(const ModelSource& source, TiedTables tied = TiedTables::equal);

}  // namespace plimsoll
