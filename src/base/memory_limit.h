// The memory that a command may take before its training runs: planning, tokenising and measuring keep the budget of the
// training. The limit counts this process, its parents that wait, and the children that it starts (base/child.h). It is
// RLIMIT_DATA, so an allocation past it throws std::bad_alloc.
#pragma once

#include <cstddef>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {

class MemoryLimit {
 public:
  // The program, its libraries and the smallest search take so much, whatever the budget.
  static constexpr Bytes kLeast{80 * kMiB.n};

  // Holds until this goes. Without bytes there is no limit.
  explicit MemoryLimit(std::optional<Bytes> bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  static bool holds();
  // The bytes that this process may still take; nothing without a limit.
  static std::optional<Bytes> room();
  // Up to `most`, as many as the limit leaves memory for.
  static std::size_t threads(std::size_t most);
  // E-MEM-PLAN (exit 3), for std::bad_alloc under the last limit.
  static Error passed();

  // A process calls this before it waits for a child. Pages of its program leave memory; the bytes that stay are returned. 0
  // without a limit.
  static Bytes held_while_waiting();
  // This process is not held to the limit any more: a library maps more for the code that it generates than it fills.
  static void release();
  // In the child: what its parents hold is not its own to take.
  static void enter_child(Bytes of_parents) noexcept;
};

}  // namespace plimsoll
