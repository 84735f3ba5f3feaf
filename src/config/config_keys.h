// The list of configuration keys: name, comment, reader and writer of each. Parsing, the resolved file, the text of
// `plimsoll init`, suggestions and comparisons all walk this one list, in this order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "settings/faults.h"
#include "settings/setting.h"

namespace plimsoll {

using SetKey = std::function<void(Config&, const Setting&)>;

struct KeyAccess {
  SetKey set;
  std::function<std::string(const Config&)> text;  // see text_of
};

struct ConfigKey {
  std::string_view name;  // with its section: "train.micro_batch"
  OnResume on_resume;
  std::string_view comment;  // one line for people
  std::string_view example;  // a TOML value, shown where the key is absent
  KeyAccess access;
  bool in_loss = false;  // changes what the training loss adds up, beside the model and the order of samples

  void set(Config& config, const Setting& setting) const { access.set(config, setting); }
  std::string text(const Config& config) const { return access.text(config); }
};

// Sections stand together; model.preset, model.init and model.kind come before the keys that override them. The keys of [model]
// are those of all families; a model of another family refuses them.
std::span<const ConfigKey> config_keys();
const ConfigKey& config_key(std::string_view name);
// "adamw": the value of optimizer.name.
std::string_view optimizer_name(OptimizerKind kind);

// "model" of "model.layers", "layers" of "model.layers".
std::string_view section_of(std::string_view name);
std::string_view leaf_of(std::string_view name);

// The effect of a value of another program on a further key.
struct ImpliedSetting {
  enum class Kind : std::uint8_t {
    always,    // the value is part of the name's meaning
    usual,     // the other program's default
    required,  // the other program requires the key
    absent     // the other program would ignore the key
  };
  std::string_view key;
  Kind kind;
  SettingValue value;  // for always and usual
};

// A setting whose key is known.
struct KeySetting {
  Setting setting;
  const ConfigKey* key;
  SetKey set;
  std::vector<ImpliedSetting> implied = {};
  bool follows = false;  // implied by another setting

  // A configuration with this setting alone.
  Config alone() const;
};

// Changes as settings. `where` names the option of each; without it, the key does. E-CONFIG-SET.
std::vector<Setting> typed_settings(std::span<const Change> changes, std::string (*where)(const Change&) = nullptr);

// The configuration of the settings of a file, called `name`, and of typed settings. Those in force stay in `typed`.
Config config_of(const std::vector<Setting>& file, std::vector<Setting>& typed, const std::string& name, const Bf16Speed& bf16);

// Finds the key of each setting, and adds a note if the name is not the key's own. E-CONFIG-KEY names the nearest key, if one is
// close, or the counterpart of another program's name.
std::vector<KeySetting> find_keys(std::vector<Setting> settings, std::vector<std::string>& notes, ConfigFaults& faults);

}  // namespace plimsoll
