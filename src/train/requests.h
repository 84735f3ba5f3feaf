// What a configuration means to the stages below: the settings of the optimizer, the request and the budget of a plan.
#pragma once

#include "autodiff/training.h"
#include "plan/plan.h"
#include "train/config.h"

namespace plimsoll {

OptimizerSettings optimizer_settings(const Config& config);
// saves stays true.
PlanRequest plan_request(const Config& config);
Budget plan_budget(const Config& config);

}  // namespace plimsoll
