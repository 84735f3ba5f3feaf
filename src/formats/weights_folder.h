// The folder of a model's weights, and the tokens that end a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace plimsoll {

// The files of an adapter in PEFT's layout (adapters/peft_folder.h).
inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

// The folder of a run with the weights of its best evaluation.
inline constexpr const char* kBestWeights = "weights_best";

// The folder of weights for a path: the path itself, or if it is the folder of a run its best weights, else its last ones. A GGUF
// file may take the place of a folder for weights, configuration and tokenizer.
std::filesystem::path weights_folder(const std::filesystem::path& path);

// The tokens that end generation: eos_token_id, one or several, of generation_config.json, else of config.json, or those of a
// GGUF file.
std::vector<std::int64_t> end_tokens(const std::filesystem::path& folder);

}  // namespace plimsoll
