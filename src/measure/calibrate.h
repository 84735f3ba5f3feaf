// What a process needs outside its arena, found by running small trainings in child processes and asking the kernel; and the one
// call that gives commands a Machine: from its file, or measured now.
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

// How this process uses malloc: one heap, large blocks mapped and given back at once. First thing in main, so that what was
// calibrated is what runs.
void settle_process();

// The model of a small training.
struct ProbeShape {
  std::int64_t layers = 1, width = 32, vocab = 256;
};
// What the process of a small training took.
struct ProbeResult {
  Bytes outside;  // the most that was resident, less the arena
  Bytes file;     // of which pages of files
  Bytes stacks;   // of which stacks of the other threads; 0 where the system does not show them
  Bytes arena;
  int primitives = 0;
  std::size_t steps = 0;
};
// Trains a model of that shape in a child process, with its files in the folder: session/probe.h.
using Probe = std::function<ProbeResult(const ProbeShape&, const Machine&, const std::filesystem::path& folder)>;

// Solves the reserve model from a few probes and adds its margins. Takes the machine's rates and threads. The files of the probes
// lie below `parent`.
ReserveModel calibrate_reserve(const Machine& machine, const std::filesystem::path& parent, const Probe& probe);

// Tells whether a machine that was measured beside other work is measured again. `when_idle`: if nothing else runs now, and at
// most three times in vain. `asked`: the same, however often.
enum class Repeat : std::uint8_t { never, when_idle, asked };

// The machine with this many threads, and what is known of its kernels: read from `cache_folder`, or measured in a few seconds
// and written there. What is measured again in up to six seconds are the rates; the reserve does not depend on other work. A
// cache file that is stale or damaged is measured again; one that cannot be written is said and does no harm. Starts child
// processes: call it before the first parallel_for.
MachineRecord calibrated_machine(int threads, const std::filesystem::path& cache_folder, const Probe& probe,
                                 const std::function<void(const std::string&)>& say, Repeat repeat = Repeat::never);

// Adds the seconds of these kernels to the machine's file, beside those that other processes added meanwhile, and returns what
// the file holds. Kernels of a machine that was measured anew meanwhile are left out.
MachineRecord keep_kernels(const MachineRecord& measured, const std::filesystem::path& cache_folder);

}  // namespace plimsoll
