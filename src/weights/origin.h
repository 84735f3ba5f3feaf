// The model and the adapter that a run began with. Its settings name them; this is what they held. A run that goes on compares.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/model_config.h"

namespace plimsoll {

struct Origin {
  std::string model;            // see text_of_model; empty: not recorded
  std::string init;             // model.init, by whole_path; empty: random numbers
  std::string weights;          // XXH3-128 of the model's parameters as they were loaded
  std::string adapter;          // adapter.init, likewise; empty: a new one, or none
  std::string adapter_weights;  // adapter_hash of that folder
};

// "kind=llama, layers=2, ...": every field of the model's configuration.
std::string text_of_model(const ModelConfig& model);
// The path as it is compared: absolute, in normal form; empty of an empty one.
std::string whole_path(const std::filesystem::path& path);

// Without the hash of weights, which are not loaded.
Origin origin_of(const ModelConfig& model, const std::filesystem::path& init, const std::filesystem::path& adapter);

// "norm_epsilon: 1e-06 -> 0.001" for each field that changes what the model computes of given weights. Sizes and dropout are keys
// of their own, and what initialises new weights has done so.
std::vector<std::string> model_differences(const std::string& before, const std::string& after);

}  // namespace plimsoll
