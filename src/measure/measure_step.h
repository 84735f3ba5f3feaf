// Seconds of kernels within a step: a few windows of the training graph itself, with operands where earlier kernels left them.
// Single kernels (measure/measure.h) have operands colder in the caches than in small models, and warmer than in large ones.
#pragma once

#include "measure/measure.h"
#include "plan/machine.h"

namespace plimsoll {

struct StepMeasurement {
  KernelSeconds seconds;                          // by timing_key: the median over all of its nodes and the quiet windows
  bool fits = false;                              // a plan of the graph fits into the memory
  std::map<std::string, std::string> algorithms;  // a library's choices for the kernels, by algorithm_key
  double others = 1;  // other processes' share of the machine in the quietest window, 0 to 1; busy windows are dropped
};

// Runs windows of two micro-steps of `graph`, the training graph of a micro-batch, on parameters and inputs of random numbers.
// Nothing if no plan of the graph fits into limits.memory, or if three windows would take more than limits.step_seconds. Takes
// about limits.seconds, or longer for two windows, and ends at limits.step_seconds.
StepMeasurement measure_step(const Graph& graph, std::int64_t micro_batch, const Machine& machine, const MeasureLimits& limits);

}  // namespace plimsoll
