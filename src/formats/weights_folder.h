// Facts about the weights of a folder: their place in the folder of a run, and the tokens that end a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace plimsoll {

// The file of an adapter in PEFT's layout (adapters/peft_folder.h).
inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

// The folder of weights that a path means: itself, or `weights` within it where it is the folder of a run. A GGUF file stands for
// a folder wherever weights, a configuration or a tokenizer are read.
std::filesystem::path weights_folder(const std::filesystem::path& path);

// The tokens at which generation ends: eos_token_id, one or several, of folder/generation_config.json or else config.json, or
// those of a GGUF file.
std::vector<std::int64_t> end_tokens(const std::filesystem::path& folder);

}  // namespace plimsoll
