// The rules of what the losses of evaluations decide: early stopping, the best weights, and the schedule "plateau".
#pragma once

#include "config/config_rules.h"

namespace plimsoll {

// The default of schedule.patience: a tenth of the run, and at least one interval of evaluations.
Duration usual_patience(const Config& config);

// E-CONFIG-MISSING without evaluations on the way, E-CONFIG-RANGE for a patience below their interval, E-CONFIG-CONFLICT for a
// key without effect.
void check_stop(const Config& config, const GivenSettings& given);

}  // namespace plimsoll
