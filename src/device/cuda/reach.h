// Declares the ranges of a memory that the next work may access to a tool: compute-sanitizer's memcheck on a GPU (by NVTX),
// AddressSanitizer for the emulation. The tool reports accesses to all other ranges. Without a tool this has no effect.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"

namespace plimsoll::cuda {

class Reach {
 public:
  // Permits all of `memory`, which outlives this.
  explicit Reach(std::span<std::byte> memory);
  ~Reach();
  Reach(const Reach&) = delete;
  Reach& operator=(const Reach&) = delete;

  // Permits these ranges alone. They lie within the memory, in any order, and may overlap. Called only while no work runs.
  void only(std::vector<std::span<std::byte>> ranges);
  void all();

 private:
  std::span<std::byte> memory_;
  void *domain_ = nullptr, *pool_ = nullptr;
};

}  // namespace plimsoll::cuda
