// The list of configuration keys: what each is called, what it says, how it is read and written. Parsing, the resolved file, the
// text of `plimsoll init`, suggestions and comparisons all walk this one list, in this order.
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

struct ConfigKey {
  std::string_view name;  // with its section: "train.micro_batch"
  OnResume on_resume;
  std::string_view comment;  // one line for people
  std::string_view example;  // a TOML value, shown where the key is absent
  SetKey set;
  std::function<std::string(const Config&)> text;  // see text_of
};

// Sections stand together; model.preset, model.init and model.kind come before what they are overridden by. The keys of [model]
// are those of all families; a model of another family than theirs refuses them.
std::span<const ConfigKey> config_keys();
const ConfigKey& config_key(std::string_view name);

// "model" of "model.layers", "layers" of "model.layers".
std::string_view section_of(std::string_view name);
std::string_view leaf_of(std::string_view name);

// What a value of another program says of a further key of ours.
struct ImpliedSetting {
  enum class Kind : std::uint8_t {
    always,    // the value is part of what the name means
    usual,     // holds where nobody says otherwise: the other program's default
    required,  // the other program refuses to do without it
    absent     // the other program would ignore it
  };
  std::string_view key;
  Kind kind;
  SettingValue value;  // of always and usual
};

// A setting whose key is known.
struct KeySetting {
  Setting setting;
  const ConfigKey* key;
  SetKey set;
  std::vector<ImpliedSetting> implied = {};
  bool follows = false;  // was itself implied

  // A configuration of which nothing else is set.
  Config alone() const;
};

// Those of --set in order, then the budgets. E-CONFIG-SET, E-CONFIG-SIZE.
std::vector<Setting> typed_settings(std::span<const std::string> sets, const BudgetOptions& budgets);

// The configuration of the settings of a file, called `name`, and of those of the command line, of which those in force are left.
Config config_of(const std::vector<Setting>& file, std::vector<Setting>& typed, const std::string& name, const Bf16Speed& bf16);

// Finds the key of each setting, adding a note where the name is not the key's own. E-CONFIG-KEY names the nearest key, if one is
// close, and what does here what a name of another program does there.
std::vector<KeySetting> find_keys(std::vector<Setting> settings, std::vector<std::string>& notes, ConfigFaults& faults);

}  // namespace plimsoll
