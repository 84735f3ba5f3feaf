// A folder of timm: config.json names an `architecture`; the depth and widths of the model follow from the tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "formats/config_json.h"
#include "formats/weight_files.h"

namespace plimsoll {

class TimmModel {
 public:
  // Reads headers alone.
  TimmModel(const std::filesystem::path& folder, ConfigReader config);

  const ConfigReader& config() const { return config_; }
  const std::string& architecture() const { return architecture_; }
  bool has(std::string_view tensor) const { return files_.find(tensor).has_value(); }
  // E-FORMAT-WEIGHTS if there is no such tensor, or if it has another number of axes.
  const Shape& shape(std::string_view tensor, std::size_t axes) const;
  // The number of blocks "PREFIX.0.", "PREFIX.1.", ...; E-FORMAT-WEIGHTS if there are none.
  std::int64_t blocks(const std::string& prefix) const;
  // pretrained_cfg.input_size, [channels, size, size]; E-FORMAT-CONFIG if it is missing.
  std::int64_t input_size() const;
  // E-FORMAT-CONFIG unless the model pools like this ("avg", "token") and model_args has no key that changes the computation.
  void demand_pool(const char* pool) const;
  // The rows of the head's matrix; of a model without a head num_classes, at least 1.
  std::int64_t classes(const std::string& head) const;
  // E-FORMAT-CONFIG: Plimsoll does not compute this architecture.
  Error refuse(std::string_view expected) const;

 private:
  ConfigReader config_;
  WeightFiles files_;
  std::string architecture_;
};

// Writes the number of classes wherever config.json has it, and takes labels of another number away.
void write_timm_config(const std::filesystem::path& folder, std::int64_t classes);

// The architecture of a folder of timm; empty for other folders.
std::string timm_architecture(const ConfigReader& config);

}  // namespace plimsoll
