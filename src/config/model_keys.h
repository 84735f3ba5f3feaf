// The keys of [model] that choose a model, and those that its family has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config_keys.h"

namespace plimsoll {

void set_init(Config& config, const Setting& setting);
void set_preset(Config& config, const Setting& setting);
void set_kind(Config& config, const Setting& setting);
std::string kind_text(const Config& config);
// Names all presets.
std::string_view preset_comment();

// The keys of all families: the sizes of blocks, or the others. If two families share a name, the comment of the first one is
// shown; a model of another family refuses the key.
std::vector<ConfigKey> model_keys(bool sizes);

}  // namespace plimsoll
