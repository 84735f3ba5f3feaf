// The arena of a tier: mapped once with exact length, between inaccessible guard pages, in huge pages if the kernel has them. It
// is touched in full before the first instruction, so that the process cannot grow later. Nothing else in a run allocates
// tensors.
#pragma once

#include <cstddef>
#include <span>

#include "base/bytes.h"

namespace plimsoll {

class Arena {
 public:
  // `beyond`: bytes mapped past the end, for the audit. Throws E-MEM-ARENA (exit 3) if the system refuses the memory.
  explicit Arena(Bytes size, Bytes beyond = {});
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* base() const { return base_; }
  Bytes size() const { return size_; }
  Bytes mapped() const { return mapped_; }
  std::span<std::byte> all() const { return {base_, static_cast<std::size_t>(mapped_.n)}; }
  // Bytes of the mapping that the kernel reports as resident.
  Bytes resident() const;

 private:
  bool lay_tail() const;
  void touch() const;

  Bytes size_, mapped_;
  void* reservation_ = nullptr;
  std::size_t reserved_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace plimsoll
