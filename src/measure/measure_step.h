// Seconds of kernels as they run within a step: a few windows of the training graph itself, with operands where the kernels
// before left them. Single kernels between others (measure/measure.h) find their operands colder than small models do, and warmer
// than large ones.
#pragma once

#include "measure/measure.h"
#include "plan/machine.h"

namespace plimsoll {

struct StepMeasurement {
  KernelSeconds seconds;  // by timing_key: the median over all nodes that share it, and over the windows that were quiet
  bool fits = false;      // a plan of it into the memory
  std::map<std::string, std::string> algorithms;  // of its kernels, where a library chose them when they were bound
  double others = 1;  // the least share of the machine that other processes had in a window; nothing is kept of busy ones
};

// Runs windows of two micro-steps of `graph`, the training graph of a micro-batch, on parameters and inputs of random numbers.
// Nothing where no plan of it fits into limits.memory, or where three windows would take more than limits.step_seconds. Takes
// about limits.seconds, or two windows where they take longer, and ends at limits.step_seconds.
StepMeasurement measure_step(const Graph& graph, std::int64_t micro_batch, const Machine& machine, const MeasureLimits& limits);

}  // namespace plimsoll
