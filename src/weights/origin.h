// The initial model and adapter of a run, by content. A resumed run compares them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/model_config.h"

namespace plimsoll {

struct Origin {
  std::string model;            // text_of_model; empty: not recorded
  std::string init;             // model.init, by whole_path; empty: random numbers
  std::string weights;          // XXH3-128 of the model's initial parameters
  std::string adapter;          // adapter.init, by whole_path; empty: a new adapter, or none
  std::string adapter_weights;  // adapter_hash of this folder
};

// "kind=llama, layers=2, ...": every field of the model's configuration.
std::string text_of_model(const ModelConfig& model);
// The absolute path in normal form, for comparisons; empty for an empty one.
std::string whole_path(const std::filesystem::path& path);

// The origin without the hash of weights, which are not loaded.
Origin origin_of(const ModelConfig& model, const std::filesystem::path& init, const std::filesystem::path& adapter);

// "norm_epsilon: 1e-06 -> 0.001" for each differing field that affects the model's results for given weights. Sizes and dropout
// have their own keys, and fields for initialisation no longer matter.
std::vector<std::string> model_differences(const std::string& before, const std::string& after);

}  // namespace plimsoll
