// The rules between keys: defaults that depend on others, required keys, keys that must agree, and sizes whose products stay
// below 2^60.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config_keys.h"

namespace plimsoll {

// One slot per key, empty if the key is not given.
using KeySettings = std::vector<std::optional<KeySetting>>;

class GivenSettings {
 public:
  // `settings` must outlive this.
  GivenSettings(const KeySettings& settings, std::string file) : settings_(settings), file_(std::move(file)) {}

  // The setting of a key, or null.
  const Setting* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // The place of a key, or the file.
  std::string where(std::string_view key) const;
  const std::string& file() const { return file_; }

 private:
  const KeySettings& settings_;
  std::string file_;
};

// True if a key applies to the schedule, and for keys of other sections.
bool schedule_has(ScheduleKind kind, std::string_view key);
// The value of a key as TOML; "" if the key is absent, or belongs to another schedule.
std::string text_of(const ConfigKey& key, const Config& config);

// The default rate, the usual one of most models with the optimizer.
double usual_learning_rate(OptimizerKind kind);

// True if the optimizer keeps state between updates.
bool keeps_state(const Config& config);

// The effect of a key on a run of this configuration. With a constant rate, the length is free: a longer run begins with the same
// updates.
OnResume on_resume(const ConfigKey& key, const Config& config);

// True if `one` overrides `other`. Typed settings override those of a file; settings typed now override those typed when the run
// began.
bool counts_before(const Setting& one, const Setting& other);

// If two choices exclude each other, the command line wins: the file's setting is removed, with a note.
void leave_aside(KeySettings& settings, std::vector<std::string>& notes);

// E-CONFIG-INIT if keys of the shape accompany an init folder. Runs before any file is read.
void check_init_alone(const GivenSettings& given);

// Fills the open values and checks the whole: E-CONFIG-MISSING, -INIT, -HEADS, -RANGE, -CONFLICT, E-BATCH-3. Adds notes.
void complete(Config& config, const GivenSettings& given, const Bf16Speed& bf16, ConfigFaults& faults);

}  // namespace plimsoll
