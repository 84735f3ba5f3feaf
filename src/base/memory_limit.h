// The memory limit of a command before its training runs: planning, tokenising and measuring stay within the training's budget.
// It counts this process, its waiting parents and its children (base/child.h). It is an RLIMIT_DATA, so an allocation past it
// throws std::bad_alloc.
#pragma once

#include <cstddef>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {

class MemoryLimit {
 public:
  // The least memory for the program, its libraries and the smallest search.
  static constexpr Bytes kLeast{80 * kMiB.n};

  // The limit lasts as long as this object. No bytes: no limit.
  explicit MemoryLimit(std::optional<Bytes> bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  static bool holds();
  // The bytes that this process may still take; nothing without a limit.
  static std::optional<Bytes> room();
  // Number of threads within the limit, up to `most`.
  static std::size_t threads(std::size_t most);
  // E-MEM-PLAN (exit 3), for std::bad_alloc under the last limit.
  static Error passed();

  // Called before waiting for a child. Pages of the program leave memory; the remaining bytes are returned (0 without a limit).
  static Bytes held_while_waiting();
  // Ends the limit in this process: a library maps more memory for generated code than it fills.
  static void release();
  // Called in the child: the parents' bytes are part of the limit.
  static void enter_child(Bytes of_parents) noexcept;
};

}  // namespace plimsoll
