// The MPI module's interface: a table that the module exports. The program does not link MPI, and loads it only in a process that
// was started as one of several.
#pragma once

#include <memory>
#include <string>

#include "collective/peers.h"

namespace plimsoll {

struct MpiBackend {
  const char* interface;     // version of the headers of its build
  std::string (*library)();  // "Open MPI 4.1.4"
  // Joins the other processes, and waits for them. One object per process; when it goes, the process leaves the others.
  std::unique_ptr<Peers> (*join)();
};

// Loads plimsoll_mpi.so next to the program, once. E-RANK-MPI (exit 2) if it is absent, lacks a library or is of another build.
const MpiBackend& load_mpi();

// The only name that the module exports.
inline constexpr const char* kMpiBackendSymbol = "plimsoll_mpi_backend";

}  // namespace plimsoll
