// This machine with its GPU: kernels run there, the process beside it is the host's. Measured through the CUDA module in a child
// process, once for each GPU, number of threads and build, and kept in the cache.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "measure/machine_file.h"

namespace plimsoll {

// `here`: the machine without it. Throws E-CUDA-LOAD and E-CUDA-DEVICE (exit 2).
MachineRecord cuda_machine(const MachineRecord& here, const std::filesystem::path& cache,
                           const std::function<void(const std::string&)>& say);

// The file that keeps it.
std::filesystem::path cuda_machine_file(const MachineRecord& record, const MachineRecord& here,
                                        const std::filesystem::path& cache);

}  // namespace plimsoll
