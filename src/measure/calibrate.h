// The memory of a process outside its arena, measured on small trainings in child processes; and the one call that gives commands
// a Machine, from its file or measured now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/bytes.h"
#include "measure/machine_file.h"
#include "plan/machine.h"

namespace plimsoll {

// Sets malloc to one heap, with large blocks mapped and given back at once. Called first in main, so that runs behave as
// calibrated.
void settle_process();

// The model of a small training.
struct ProbeShape {
  std::int64_t layers = 1, width = 32, vocab = 256;
};
// The memory of the process of a small training.
struct ProbeResult {
  Bytes outside;  // peak of resident memory, less the arena
  Bytes file;     // pages of files in `outside`
  Bytes stacks;   // stacks of the other threads in `outside`; 0 if the system does not report them
  Bytes arena;
  int primitives = 0;
  std::size_t steps = 0;
};
// Trains a model of this shape in a child process, with its files in the folder: session/probe.h.
using Probe = std::function<ProbeResult(const ProbeShape&, const Machine&, const std::filesystem::path& folder)>;

// Solves the reserve model from a few probes and adds its margins. Uses the machine's rates and threads. The files of the probes
// lie below `parent`.
ReserveModel calibrate_reserve(const Machine& machine, const std::filesystem::path& parent, const Probe& probe);

// The rule for measuring a machine again that was measured during other work. `when_idle`: if nothing else runs now, at most
// three times in vain. `asked`: if nothing else runs now, any number of times.
enum class Repeat : std::uint8_t { never, when_idle, asked };

// The machine with `threads` threads and the known seconds of its kernels: read from `cache_folder`, or measured in a few seconds
// and written there. Measuring again covers the rates, in up to six seconds; the reserve does not depend on other work. A stale
// or damaged cache file is replaced; an unwritable one is only reported. Starts child processes: call it before the first
// parallel_for.
MachineRecord calibrated_machine(int threads, const std::filesystem::path& cache_folder, const Probe& probe,
                                 const std::function<void(const std::string&)>& say, Repeat repeat = Repeat::never);

// Adds the seconds of these kernels to the machine's file, keeps those that other processes added in the meantime, and returns
// the result. Kernels are left out if the machine was measured anew in the meantime.
MachineRecord keep_kernels(const MachineRecord& measured, const std::filesystem::path& cache_folder);

}  // namespace plimsoll
