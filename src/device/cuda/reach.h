// Ranges of a memory that the next work may reach, told to a tool: compute-sanitizer's memcheck on a GPU (by NVTX),
// AddressSanitizer over the emulation. The tool reports accesses to any other range. Without such a tool nothing happens.
#pragma once

#include <span>
#include <vector>

#include "base/bytes.h"

namespace plimsoll::cuda {

class Reach {
 public:
  // All of it may be reached, which outlives this.
  explicit Reach(std::span<std::byte> memory);
  ~Reach();
  Reach(const Reach&) = delete;
  Reach& operator=(const Reach&) = delete;

  // Within the memory, in any order; they may overlap. Only while no work runs.
  void only(std::vector<std::span<std::byte>> ranges);
  void all();

 private:
  std::span<std::byte> memory_;
  void *domain_ = nullptr, *pool_ = nullptr;
};

}  // namespace plimsoll::cuda
