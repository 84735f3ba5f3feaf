// Rules between the keys of the data, and between data and model.
#pragma once

#include "config/config_rules.h"

namespace plimsoll {

// E-CONFIG-CONFLICT for keys of samples of their own lengths that the format of the data does not have.
void check_samples(const Config& config, const GivenSettings& given);
// The model and the data hold the same: images, or tokens. E-CONFIG-CONFLICT.
void check_images(const Config& config, const GivenSettings& given);
// E-CONFIG-CONFLICT for keys that count tokens, if the model reads none.
void check_no_tokens(const Config& config, const GivenSettings& given);

}  // namespace plimsoll
