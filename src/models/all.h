// Every model family there is. A new one is a folder and a line in all.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/family.h"

namespace plimsoll {

std::span<const Family* const> families();
// For programs with families of their own. Called before the first configuration is read; the family outlives the program.
void add_family(const Family& family);

// The model of a folder, by the model_type of its config.json, or of a GGUF file. data_error E-FORMAT-CONFIG names the kinds that
// there are.
ModelConfig read_model(const std::filesystem::path& folder);

// E-CONFIG-PRESET lists them.
const ModelConfig& model_preset(std::string_view name);
std::vector<std::string_view> model_preset_names();

// "a, b, c"
std::string joined(std::span<const std::string_view> names);

}  // namespace plimsoll
