// This machine with its GPU, which runs the kernels; the process takes memory of the host. Measured through the CUDA module in a
// child process, once per GPU, number of threads and build, and kept in the cache.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "measure/machine_file.h"

namespace plimsoll {

// `here`: the machine without the GPU. Throws E-CUDA-LOAD and E-CUDA-DEVICE (exit 2).
MachineRecord cuda_machine(const MachineRecord& here, const std::filesystem::path& cache,
                           const std::function<void(const std::string&)>& say);

// The file of this machine in the cache.
std::filesystem::path cuda_machine_file(const MachineRecord& record, const MachineRecord& here,
                                        const std::filesystem::path& cache);

}  // namespace plimsoll
