// Measurements of this machine: peak rates, and the seconds of single kernels. Samples that were taken while other processes held
// the processors are repeated a few times; the least time counts, which noise can only lengthen. Everything runs on the team of
// threads of the caller, which is a child process of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "graph/roofline.h"
#include "measure/sharing.h"

namespace plimsoll {

// Of some samples, at least one; of an even number the upper of both.
double median(std::vector<double> samples);

struct Rates {
  Roofline roofline;                 // products: the best of a few shapes; a pass: AdamW-like, four arrays read, three written
  double copy_bytes_per_second = 0;  // bytes read and written
  Sharing sharing;                   // of the quietest attempt
};

// Less than two seconds, and 128 MiB.
Rates measure_rates(int threads);

using KernelSeconds = std::map<std::string, double>;  // by timing_key
using KernelNames = std::set<std::string>;            // timing_keys

struct MeasureLimits {
  double seconds_per_kernel = 0.15;
  double seconds = 10;  // in total; what is left stays unmeasured
  // Of all windows of a step (measure/measure_step.h), however busy the machine; a step that would take longer is not run.
  double step_seconds = std::numeric_limits<double>::infinity();
  Bytes memory;            // of the operands and the scratch of one kernel; larger ones stay unmeasured
  double others = kQuiet;  // share of the machine that other work may take of a sample that counts
};

// Times each kernel of the graph that `known` does not hold, for adding into accumulators and for writing them, and returns
// these, those with the largest share of a step first. `shared` gets those that found no quiet moment. Kernels that differ only
// in the key of their noise, by site or by seed, are one. `graph` is the training graph of a micro-batch, rewritten or not:
// clones are the same kernels.
KernelSeconds measure_kernels(const Graph& graph, int threads, int loss_chunks, const KernelSeconds& known,
                              const MeasureLimits& limits, KernelNames* shared = nullptr);

// Numbers far from zero, infinity and each other's rounding, never negative, as second moments are not; small ones for fp64, and
// whole ones below `rows`.
void fill_with_numbers(std::byte* to, const ValueType& type, std::int64_t rows);

// How many kernels a graph has, how many of them are known, and the share of a step's work that these do.
struct KernelCoverage {
  int kernels = 0, known = 0;
  double share = 0;
};
KernelCoverage coverage(const Graph& graph, int threads, int loss_chunks, const KernelSeconds& known);

// How many kernels measure_kernels would time, were there no limits.
int count_unmeasured(const Graph& graph, int threads, int loss_chunks, const KernelSeconds& known);

}  // namespace plimsoll
