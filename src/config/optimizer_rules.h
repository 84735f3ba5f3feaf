// Defaults of an optimizer, keys that exclude each other, and notes on likely mistakes.
#pragma once

#include "config/config_rules.h"

namespace plimsoll {

// Fills rate, decay and betas. E-CONFIG-CONFLICT, E-CONFIG-RANGE.
void complete_optimizer(Config& config, const GivenSettings& given);
// Adds notes on the effect of the learning rate, the decay and the betas on each weight.
void note_doubtful_optimizer(Config& config, const GivenSettings& given);

}  // namespace plimsoll
