// A planning problem and our answer to it in terms of no program (schema plimsoll.instance/1, every field in
// instances/README.md): the training graph that keeps everything, with bytes and seconds, and the plan as steps and buffers.
#pragma once

#include <string>

#include "config/config.h"
#include "plan/plan.h"
#include "prepare/planning.h"

namespace plimsoll {

// `plan` is a plan of `config` that `input` led to. Throws config_error E-EXPORT-DISK where it uses a disk, E-EXPORT-GROUP where
// micro-batches go through blocks together.
std::string instance_text(const Config& config, const PlanningInput& input, const Plan& plan);

}  // namespace plimsoll
