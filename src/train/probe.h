// Small trainings, run for what they show of a process: how many bytes it needs outside its arena. Everything happens in child
// processes, planning in one and training in another, as it does in a real run.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/bytes.h"
#include "config/config.h"
#include "plan/machine.h"

namespace plimsoll {

struct ProbeResult {
  Bytes outside;  // the most that was resident, less the arena
  Bytes file;     // of which pages of files
  Bytes stacks;   // of which stacks of the other threads; 0 where the system does not show them
  Bytes arena;
  int primitives = 0;
  std::size_t steps = 0;
};

// Plans and trains what `config` says, data included: every update, the evaluation, the generation of a token, the weights into
// `folder`.
ProbeResult run_probe(const Config& config, const Machine& machine, const std::filesystem::path& folder);

// What one distinct piece of generated code takes, on the average of products as they occur in training. In a child as well.
Bytes measure_primitive(int threads);

}  // namespace plimsoll
