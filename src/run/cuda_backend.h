// The CUDA module as the program sees it: a table that it exports. The program itself links nothing of CUDA, and where no run
// asks for a GPU it loads nothing either.
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

// Measured, with the link's ways while both are busy and products run.
struct CudaRates {
  Roofline peaks;
  double copy_bytes_per_second = 0;
  struct Way {
    double bytes_per_second = 0, alone_bytes_per_second = 0;
  } in, out;
  Bytes outside;     // of the device, beside what was asked for: its context, code, libraries
  Bytes graph_node;  // and of one kernel of a graph
};

// How a GPU is given its work, which is the same: whole graphs; kernel by kernel; or that, and each is waited for, so that a
// failure has its name, and a tool that looks for stray accesses is told what it may touch.
enum class CudaPace : std::uint8_t { graphs, kernels, checked };

struct CudaOptions {
  std::filesystem::path disk = ".";  // folder of the page file, where a plan has a disk
  CudaPace pace = CudaPace::graphs;
  Bytes beyond;  // past the arena's end, for the audit
};

struct CudaBackend {
  const char* interface;  // of the headers that it is built with
  // Makes the context. E-CUDA-DEVICE (exit 2) where there is no device, or its driver is too old.
  CudaFacts (*open)();
  CudaRates (*measure)();
  // What CudaDevice (cuda_device.h) is made from.
  std::unique_ptr<Device> (*make_device)(const Program& program, const Plan& plan, const CudaOptions& options);
};

// plimsoll_cuda.so beside the program, once. E-CUDA-LOAD (exit 2) where it is not there, lacks a library or is of another build.
const CudaBackend& load_cuda();

// The one name that the module exports.
inline constexpr const char* kCudaBackendSymbol = "plimsoll_cuda_backend";

}  // namespace plimsoll
