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
  // The error for std::bad_alloc (exit 3): E-MEM-PLAN with the last limit, E-MEM-ARENA if there never was a limit.
  static Error passed();

  // Called before waiting for a child. Drops unchanged pages of files, and returns the resident bytes of this process and of its
  // parents; 0 without a limit.
  static Bytes held_while_waiting();
  // Ends the limit in this process: a library maps more memory for generated code than it fills.
  static void release();
  // Called in the child. `of_parents`: the bytes that held_while_waiting() returned; they count within the limit.
  static void enter_child(Bytes of_parents) noexcept;
};

}  // namespace plimsoll
