// Errors of the CUDA runtime as coded errors.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "base/error.h"

namespace plimsoll::cuda {

// Throws E-CUDA-DEVICE, which says what was done, and the runtime's own words.
inline void check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  throw Error(ErrorKind::environment, ExitCode::configuration, "E-CUDA-DEVICE", "device cuda",
              std::string(what) + ": " + cudaGetErrorString(result) + " (" + cudaGetErrorName(result) + ")",
              "a GPU that works and has the memory", {});
}

}  // namespace plimsoll::cuda
