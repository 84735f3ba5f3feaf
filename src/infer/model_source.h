// The weights that a command runs: a folder of a model, perhaps with an adapter, which knows its base.
#pragma once

#include <filesystem>
#include <string>

#include "adapters/settings.h"
#include "models/model_config.h"

namespace plimsoll {

struct ModelSource {
  std::filesystem::path folder;  // of the model, the base of the adapter
  ModelConfig model;
  AdapterSettings adapter;
};

// `weights` and `adapter` as they were given, either may be empty: a folder, or that of a run. Weights that are an adapter alone
// count as such. Refuses folders whose files are not those of their configurations, which costs less than planning: what loading
// would throw. E-USAGE where neither is given, E-ADAPTER-BASE where the base is not there.
ModelSource find_model(const std::string& weights, const std::string& adapter);

}  // namespace plimsoll
