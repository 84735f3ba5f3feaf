// Measurements of this machine: peak rates, and the seconds of single kernels. Samples taken while other processes used the
// processors are repeated a few times; the least time counts, because noise only adds. Everything runs on the thread team of the
// caller, which is a child process.
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

// The median of at least one sample; for an even number the upper of the middle two.
double median(std::vector<double> samples);

struct Rates {
  Roofline roofline;                 // products: the best of a few shapes; a pass: AdamW-like, four arrays read, three written
  double copy_bytes_per_second = 0;  // bytes read and written
  Sharing sharing;                   // of the quietest attempt
};

// Takes less than two seconds and 128 MiB.
Rates measure_rates(int threads);

using KernelSeconds = std::map<std::string, double>;  // by timing_key
using KernelNames = std::set<std::string>;            // timing_keys

struct MeasureLimits {
  double seconds_per_kernel = 0.15;
  double seconds = 10;  // in total; the remaining kernels stay unmeasured
  // For all windows of a step (measure/measure_step.h), however busy the machine is. A step that would take longer is not
  // run.
  double step_seconds = std::numeric_limits<double>::infinity();
  Bytes memory;            // of the arena of one measurement; larger kernels and steps stay unmeasured
  double others = kQuiet;  // limit of other work's share of the machine for a valid sample, 0 to 1
};

// Times each kernel of the graph that `known` lacks, both for adding into accumulators and for writing them, and returns the
// seconds. Kernels with the largest share of a step come first. `shared` gets kernels without a quiet moment. Kernels that differ
// only in the key of their noise count as one. `graph` is the training graph of a micro-batch, rewritten or not: clones are the
// same kernels.
KernelSeconds measure_kernels(const Graph& graph, int threads, int loss_chunks, const KernelSeconds& known,
                              const MeasureLimits& limits, KernelNames* shared = nullptr);

// Fills with numbers far from zero, infinity and each other's rounding, never negative, since second moments are not. fp64 gets
// small numbers, integers get values below `rows`.
void fill_with_numbers(std::byte* to, const ValueType& type, std::int64_t rows);

// The number of kernels of a graph, the number of known ones, and the share of a step's work in the known ones.
struct KernelCoverage {
  int kernels = 0, known = 0;
  double share = 0;
};
KernelCoverage coverage(const Graph& graph, int threads, int loss_chunks, const KernelSeconds& known);

}  // namespace plimsoll
