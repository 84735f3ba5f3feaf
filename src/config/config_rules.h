// What holds between keys: defaults that depend on others, what is required, what must agree, and sizes whose products stay far
// from the end of 64 bits.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config_keys.h"

namespace plimsoll {

// One slot per key, empty where nothing is said.
using KeySettings = std::vector<std::optional<KeySetting>>;

class GivenSettings {
 public:
  // `settings` must outlive this.
  GivenSettings(const KeySettings& settings, std::string file) : settings_(settings), file_(std::move(file)) {}

  // What was said about a key, or null.
  const Setting* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Where a key was given, or the file.
  std::string where(std::string_view key) const;
  const std::string& file() const { return file_; }

 private:
  const KeySettings& settings_;
  std::string file_;
};

// Whether such a schedule has what the key says; true of keys that all of them have, and of other sections.
bool schedule_has(ScheduleKind kind, std::string_view key);
// What the configuration says of a key, as a TOML value; "" where it is absent, or of another schedule.
std::string text_of(const ConfigKey& key, const Config& config);

// What most models of such an optimizer train with: the rate where none is given.
double usual_learning_rate(OptimizerKind kind);

// Whether the optimizer keeps anything between updates.
bool keeps_state(const Config& config);

// What the key may do to a run of this configuration. Without a schedule, more updates are the same ones and others behind them.
OnResume on_resume(const ConfigKey& key, const Config& config);

// What is typed counts before what a file says, and what is typed now before what was typed when the run began.
bool counts_before(const Setting& one, const Setting& other);

// Of two choices that exclude each other the command line's counts: what the file says of the other one is removed, with a note.
void leave_aside(KeySettings& settings, std::vector<std::string>& notes);

// E-CONFIG-INIT where keys of the shape stand beside an init folder. Runs before any file is read.
void check_init_alone(const GivenSettings& given);

// Fills what is left open and checks the whole: E-CONFIG-MISSING, -INIT, -HEADS, -RANGE, -CONFLICT, E-BATCH-3. Adds notes.
void complete(Config& config, const GivenSettings& given, const Bf16Speed& bf16, ConfigFaults& faults);

}  // namespace plimsoll
