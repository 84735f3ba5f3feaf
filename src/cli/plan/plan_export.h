// A planning problem and our answer, independent of any program (schema plimsoll.instance/1; instances/README.md lists every
// field): the training graph without recomputation, with bytes and seconds, and the plan as steps and buffers.
#pragma once

#include <string>

#include "config/config.h"
#include "plan/plan.h"
#include "prepare/planning.h"

namespace plimsoll {

// `plan` is a plan of `config` and `input`. Throws config_error E-EXPORT-DISK if it uses a disk, and E-EXPORT-GROUP if
// micro-batches go through blocks together.
std::string instance_text(const Config& config, const PlanningInput& input, const Plan& plan);

}  // namespace plimsoll
