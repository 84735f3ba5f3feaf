// Errors of the CUDA runtime as coded errors.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "base/error.h"

namespace plimsoll::cuda {

// Throws an error with the failed call and the runtime's message: E-MEM-ARENA (exit 3) if memory is missing, else E-CUDA-DEVICE
// (exit 5), for a device that has worked so far.
inline void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  const std::string text = std::string(what) + ": " + cudaGetErrorString(result) + " (" + cudaGetErrorName(result) + ")";
  if (result == cudaErrorMemoryAllocation) {
    throw Error(ErrorKind::environment, ExitCode::does_not_fit, "E-MEM-ARENA", "device cuda", text,
                "memory that other processes leave free", {"nvidia-smi", "a smaller memory.budget"});
  }
  throw Error(ErrorKind::environment, ExitCode::data, "E-CUDA-DEVICE", "device cuda", text, "a GPU that works",
              {Remedy(Change("command.resume"), "from the last checkpoint"),
               Remedy(Change("machine.gpu_graphs", "false"), "names the kernel")});
}

}  // namespace plimsoll::cuda
