// Small trainings that measure the bytes of a process outside its arena. Planning and training run in separate child processes,
// as in a real run.
#pragma once

#include <filesystem>

#include "config/config.h"
#include "measure/calibrate.h"

namespace plimsoll {

// Plans and trains `config`, data included: every update, the evaluation, the generation of a token, the weights into `folder`.
ProbeResult run_probe(const Config& config, const Machine& machine, const std::filesystem::path& folder);

// The same for a model of that shape with its own data, for calibrated_machine.
ProbeResult probe_shape(const ProbeShape& shape, const Machine& machine, const std::filesystem::path& folder);

}  // namespace plimsoll
