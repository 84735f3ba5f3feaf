// The keys of [adapter], and the rules between them: a PEFT folder brings most keys and permits few others.
#pragma once

#include <string>
#include <vector>

#include "config/config_keys.h"

namespace plimsoll {

class GivenSettings;

std::vector<ConfigKey> adapter_keys();

// A list of texts: its reader and its writer.
std::vector<std::string> names(const Setting& setting);
std::string names_text(const std::vector<std::string>& names);
// The same; "" for an empty list.
std::string unless_empty(const std::vector<std::string>& list);

// Takes over the settings of the folder adapter.init, and its base if no model is given. Runs before the model is completed.
// E-ADAPTER-CONTRADICTION if a key says otherwise, and the errors of read_peft_folder.
void complete_adapter(Config& config, const GivenSettings& given);

// E-CONFIG-CONFLICT for model.freeze with an adapter. Notes a model of random numbers under one.
void check_frozen(Config& config, const GivenSettings& given);

}  // namespace plimsoll
