// The list of all model families. A new family is a folder, its name here and in all.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/family.h"

namespace plimsoll {

extern const Family kGpt2, kLlama, kMistral, kQwen2, kQwen3, kVit, kResnet, kMobilenetV2;

std::span<const Family* const> families();
// Adds a family of another program, which must exist until this program ends. Call it before the first configuration is read.
void add_family(const Family& family);

// The model of a folder, by the model_type or the architecture (of timm) in its config.json, or of a GGUF file. data_error
// E-FORMAT-CONFIG lists the known kinds.
ModelConfig read_model(const std::filesystem::path& folder);

// E-CONFIG-PRESET lists the presets.
const ModelConfig& model_preset(std::string_view name);
std::vector<std::string_view> model_preset_names();

// "a, b, c"
std::string joined(std::span<const std::string_view> names);

}  // namespace plimsoll
