// GGUF files of model families: which family a file holds, its keys as config.json has them, and its tensors as those of a
// Hugging Face folder. An architecture that is not computed, and a key that would change the computation, is refused by name
// (data_error E-FORMAT-GGUF).
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

// A model as a GGUF file has it, without its tensors.
struct GgufModel {
  std::string architecture;
  GgufKeys keys;  // with the prefix of the architecture
  GgufLayout layout;
  std::vector<float> rope_divisors;  // of rotary angles, one for each pair; empty: there are none
};

// The keys of a file that begin with its architecture.
class GgufModelKeys {
 public:
  explicit GgufModelKeys(const GgufFile& file);

  const GgufFile& file() const { return file_; }
  const std::string& prefix() const { return prefix_; }
  // A size above 0, the same for each layer.
  std::optional<std::int64_t> size(std::string_view name) const;
  std::int64_t required(std::string_view name) const;
  // The number of blocks, each of which has a tensor at least.
  std::int64_t blocks() const;
  // A number above 0.
  double number(std::string_view name, double fallback) const;
  std::optional<std::string> text(std::string_view name) const { return file_.text(prefix_ + std::string(name)); }
  // The key is absent or has this value; all others would change the computation.
  void demand(std::string_view name, double neutral) const;
  // Keys that all families have are known, and `more`; any other one is refused.
  void refuse_unknown(std::initializer_list<std::string_view> more) const;

 private:
  const GgufFile& file_;
  std::string architecture_, prefix_;
};

// Rows of the table of tokens.
std::int64_t gguf_vocabulary(const GgufFile& file);

// config.json, as a folder of the model has it.
nlohmann::ordered_json gguf_config(const GgufFile& file);
// Writes config.json and generation_config.json, each whole or not at all. `replace`: also where they are already.
void write_gguf_config(const GgufFile& file, const std::filesystem::path& folder, bool replace);

// The configuration of a model's folder, or of a GGUF file.
ConfigReader config_of_model(const std::filesystem::path& model);
// Its weights.
WeightFiles weights_of_model(const std::filesystem::path& model);

}  // namespace plimsoll
