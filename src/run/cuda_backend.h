// The CUDA module's interface: a table that the module exports. The program does not link CUDA, and loads it only for runs on a
// GPU.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graph/roofline.h"
#include "plan/plan.h"
#include "program/program.h"
#include "run/device.h"

namespace plimsoll {

struct CudaFacts {
  std::string name;
  std::vector<std::string> libraries;  // "CUDA 13.0", "cuBLASLt 13.1.0"
  Bytes memory;
};

// Measured rates. `bytes_per_second` of a direction holds while the other direction is as busy and products run.
struct CudaRates {
  Roofline peaks;
  double copy_bytes_per_second = 0;
  struct Way {
    double bytes_per_second = 0, alone_bytes_per_second = 0;
  } in, out;
  Bytes outside;     // device memory of the context, code and libraries
  Bytes graph_node;  // device memory of one kernel of a graph
};

// The unit of a GPU's launches. graphs: whole graphs. kernels: single kernels. checked: single kernels with a wait after each, so
// that a failure names its kernel and a tool for stray accesses knows the permitted ranges. The results are the same.
enum class CudaPace : std::uint8_t { graphs, kernels, checked };

struct CudaOptions {
  std::filesystem::path disk = ".";  // folder of the page file, for a plan with a disk
  CudaPace pace = CudaPace::graphs;
  Bytes beyond;  // bytes mapped past the arena's end, for the audit
};

struct CudaBackend {
  const char* interface;  // version of the headers of its build
  // Makes the context. E-CUDA-DEVICE (exit 2) if there is no device, or its driver is too old.
  CudaFacts (*open)();
  CudaRates (*measure)();
  // Makes a CudaDevice (cuda_device.h).
  std::unique_ptr<Device> (*make_device)(const Program& program, const Plan& plan, const CudaOptions& options);
};

// Loads plimsoll_cuda.so next to the program, once. E-CUDA-LOAD (exit 2) if it is absent, lacks a library or is of another build.
const CudaBackend& load_cuda();

// The only name that the module exports.
inline constexpr const char* kCudaBackendSymbol = "plimsoll_cuda_backend";

}  // namespace plimsoll
