// One update as a file of Chrome's trace format, for ui.perfetto.dev and chrome://tracing. Process 1 is the measured update,
// process 2 the planned one, on one axis. Each has a track with the update as one slice, a track of kernels and one for each
// direction of a link; the measured one has tracks of data, too. The planned one has the pass of the gradient noise if the
// measured one has it. Counters show the bytes of each tier by owner.
//
//   1 measured | update, kernels, copies in and out, reading of data, waits for data
//   2 planned  | update, kernels, lanes in and out of each link
#pragma once

#include <filesystem>

#include "plan/plan.h"
#include "profile/update_times.h"
#include "program/program.h"

namespace plimsoll {

// Consumes the analysis of the plan. E-IO-WRITE if the file cannot be written.
void write_trace(const std::filesystem::path& path, Plan plan, const Program& program, const Machine& machine,
                 const UpdateTimes& times);

}  // namespace plimsoll
