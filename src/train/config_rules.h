// What holds between keys: defaults that depend on others, what is required, what must agree, and sizes whose products stay far
// from the end of 64 bits.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/config_keys.h"

namespace plimsoll {

class GivenSettings {
 public:
  // `settings` must outlive this; one slot per key.
  GivenSettings(const std::vector<std::optional<KeySetting>>& settings, std::string file)
      : settings_(settings), file_(std::move(file)) {}

  // What was said about a key, or null.
  const Setting* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Where a key was given, or the file.
  std::string where(std::string_view key) const;
  const std::string& file() const { return file_; }

 private:
  const std::vector<std::optional<KeySetting>>& settings_;
  std::string file_;
};

// E-CONFIG-INIT where keys of the shape stand beside an init folder. Runs before any file is read.
void check_init_alone(const GivenSettings& given);

// Fills what is left open and checks the whole: E-CONFIG-MISSING, -INIT, -HEADS, -RANGE, E-BATCH-3. Adds notes.
void complete(Config& config, const GivenSettings& given);

}  // namespace plimsoll
