// The list of configuration keys: what each is called, what it says, how it is read and written. Parsing, the resolved file, the
// text of `plimsoll init`, suggestions and comparisons all walk this one list, in this order.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/config.h"
#include "train/config_source.h"

namespace plimsoll {

using SetKey = void (*)(Config&, const Setting&);

struct ConfigKey {
  std::string_view name;     // with its section: "train.micro_batch"
  std::string_view comment;  // one line for people
  std::string_view example;  // a TOML value, shown where the key is absent
  SetKey set;
  std::string (*text)(const Config&);  // see text_of
};

// Sections stand together; model.preset and model.init come before what they are overridden by.
std::span<const ConfigKey> config_keys();
const ConfigKey& config_key(std::string_view name);

// "model" of "model.layers", "layers" of "model.layers".
std::string_view section_of(std::string_view name);
std::string_view leaf_of(std::string_view name);

// A setting whose key is known.
struct KeySetting {
  Setting setting;
  const ConfigKey* key;
  SetKey set;

  // A configuration of which nothing else is set.
  Config alone() const;
};

// Finds the key of each setting, adding a note where the name is not the key's own. E-CONFIG-KEY names the nearest key.
std::vector<KeySetting> find_keys(std::vector<Setting> settings, std::vector<std::string>& notes);

}  // namespace plimsoll
