// A first configuration for a given model and data, written by `plimsoll init FOLDER DATA`. Candidates are planned until one fits
// the budget: all parameters, then LoRA over frozen layers in ever fewer bytes, then the same with a disk, then with shorter
// samples.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/data_paths.h"
#include "measure/calibrate.h"

namespace plimsoll {

// One key of the configuration: a TOML value, and an optional remark.
struct StartingKey {
  std::string name, value, remark;
};

struct StartingPoint {
  std::string model, data, memory;  // findings and choices, in sentences
  std::vector<StartingKey> keys;    // in the order of the configuration
  bool chat = false;                // the data are samples of their own lengths
};

struct StartingRequest {
  std::filesystem::path model;   // a Hugging Face folder, or a GGUF file
  DataPaths data;                // data files; settings of `typed` may name others
  std::vector<Setting> typed;    // keys of the data, which become part of the configuration
  std::vector<Setting> budgets;  // of the section "memory"; without memory.budget: all memory
  std::filesystem::path cache;
  Probe probe = {};  // measures this machine if no file has it
};

// Throws the errors of load_config and of the readers of model and data. E-USAGE: a key of another section, or a name that a
// configuration cannot hold. E-PLAN-FIT: nothing fits. `say` may be empty.
StartingPoint starting_point(const StartingRequest& request, const std::function<void(const std::string&)>& say);

}  // namespace plimsoll
