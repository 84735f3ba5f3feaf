// Small trainings, run for what they show of a process: how many bytes it needs outside its arena. Everything happens in child
// processes, planning in one and training in another, as it does in a real run.
#pragma once

#include <filesystem>

#include "config/config.h"
#include "measure/calibrate.h"

namespace plimsoll {

// Plans and trains what `config` says, data included: every update, the evaluation, the generation of a token, the weights into
// `folder`.
ProbeResult run_probe(const Config& config, const Machine& machine, const std::filesystem::path& folder);

// The same of a model of that shape on data of its own: what calibrated_machine asks for.
ProbeResult probe_shape(const ProbeShape& shape, const Machine& machine, const std::filesystem::path& folder);

}  // namespace plimsoll
