// The keys of [adapter], and the rules between them: what a PEFT folder brings, and what may stand beside it.
#pragma once

#include <string>
#include <vector>

#include "config/config_keys.h"

namespace plimsoll {

class GivenSettings;

std::vector<ConfigKey> adapter_keys();

// A list of texts, and how it is written.
std::vector<std::string> names(const Setting& setting);
std::string names_text(const std::vector<std::string>& names);

// Takes over what the folder of adapter.init says; a model that nobody names is the base that it names. Before anything else of
// the model is completed. E-ADAPTER-CONTRADICTION where a key says otherwise, and what read_peft_folder throws.
void complete_adapter(Config& config, const GivenSettings& given);

// E-CONFIG-CONFLICT where model.freeze stands beside an adapter. Notes a model of random numbers under one.
void check_frozen(Config& config, const GivenSettings& given);

}  // namespace plimsoll
