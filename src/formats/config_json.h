// config.json of a Hugging Face folder: checked reading, and patching that keeps unknown keys. The keys of each kind of model
// belong to its family.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "tensor/dtype.h"

namespace plimsoll {

// Checked access to the keys of one file. Every fault is data_error E-FORMAT-CONFIG.
class ConfigReader {
 public:
  explicit ConfigReader(const std::filesystem::path& path);
  // Keys from another file, whose name `where` appears in messages.
  ConfigReader(std::string where, nlohmann::json json);

  Error refuse(std::string why, std::string expected) const;
  // A whole number in [1, limit].
  std::int64_t count(const char* key, std::int64_t limit) const;
  // The same; `fallback` if the key is absent.
  std::int64_t count(const char* key, std::int64_t fallback, std::int64_t limit) const;
  // A number in [low, high); `fallback` if the key is absent.
  double number(const char* key, double fallback, double low, double high) const;
  // true or false; null is false. `fallback` if the key is absent.
  bool flag(const char* key, bool fallback) const;
  // Requires that `key` is absent, null or one of `accepted`; any other value would change the computation.
  void demand(const char* key, std::initializer_list<nlohmann::json> accepted) const;
  const nlohmann::json& json() const { return *json_; }

  static std::string shown(const nlohmann::json& value);

 private:
  std::string where_;
  std::shared_ptr<const nlohmann::json> json_;
};

// quantization_config: linear layers stored in the formats of bitsandbytes.
struct FolderQuantization {
  bool int8 = false;    // else nf4
  bool nested = false;  // the scales of nf4 are stored in blocks as well
};
// Absent if the key is. E-FORMAT-CONFIG for another method or format.
std::optional<FolderQuantization> read_quantization(const ConfigReader& reader);

// The object of folder/config.json in its order; empty if no readable one exists.
nlohmann::ordered_json config_that_is_there(const std::filesystem::path& folder);
// Writes the file atomically, with an indent of two.
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json);
void write_config(const std::filesystem::path& folder, const nlohmann::ordered_json& config);

// Records the type of all tensors under the key that the file has for it: torch_dtype, dtype, or both.
void write_config_dtype(const std::filesystem::path& folder, DType dtype);

}  // namespace plimsoll
