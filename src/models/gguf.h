// GGUF files of model families: the family of a file, its keys as in config.json, its tensors as in a Hugging Face folder.
// Unknown architectures, and keys that would change the computation, are refused by name (data_error E-FORMAT-GGUF).
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf_file.h"
#include "formats/gguf/gguf_keys.h"
#include "formats/gguf/gguf_layout.h"
#include "formats/weight_files.h"
#include "models/model_config.h"

namespace plimsoll {

class ConfigReader;

// The contents of a GGUF file without its tensors.
struct GgufModel {
  std::string architecture;
  GgufKeys keys;  // with the prefix of the architecture
  GgufLayout layout;
  std::vector<float> rope_divisors;  // divisors of rotary angles, one for each pair; empty: none
};

// The keys of a file under its architecture's prefix.
class GgufModelKeys {
 public:
  explicit GgufModelKeys(const GgufFile& file);

  const GgufFile& file() const { return file_; }
  const std::string& prefix() const { return prefix_; }
  // A positive size, equal for all layers.
  std::optional<std::int64_t> size(std::string_view name) const;
  std::int64_t required(std::string_view name) const;
  // The number of blocks; each has at least one tensor.
  std::int64_t blocks() const;
  // A positive number.
  double number(std::string_view name, double fallback) const;
  std::optional<std::string> text(std::string_view name) const { return file_.text(prefix_ + std::string(name)); }
  // Requires that the key is absent or neutral; all other values would change the computation.
  void demand(std::string_view name, double neutral) const;
  // Refuses all keys but those of all families and `more`.
  void refuse_unknown(std::initializer_list<std::string_view> more) const;

 private:
  const GgufFile& file_;
  std::string architecture_, prefix_;
};

// Number of rows of the token table.
std::int64_t gguf_vocabulary(const GgufFile& file);

// The config.json of the model.
nlohmann::ordered_json gguf_config(const GgufFile& file);
// Writes config.json and generation_config.json atomically. `replace`: overwrites existing files.
void write_gguf_config(const GgufFile& file, const std::filesystem::path& folder, bool replace);

// The configuration of a model's folder, or of a GGUF file.
ConfigReader config_of_model(const std::filesystem::path& model);
// The weights of a model's folder, or of a GGUF file.
WeightFiles weights_of_model(const std::filesystem::path& model);

}  // namespace plimsoll
