// Exact search for a layout within a given capacity: depth-first over canonical (bottom-up) placements on the skyline of placed
// buffers. Work is counted in nodes (placements tried) and visits, never in time, so that the answer is a pure function of its
// arguments.
// The ideas are those of MiniMalloc (Moffitt, ASPLOS 2023) with one-machine bounds per moment and a table of refuted states
// added.
#pragma once

#include <cstdint>
#include <limits>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

enum class Status { fits, impossible, unknown };

const char* status_name(Status status);

struct SearchResult {
  Status status = Status::unknown;
  Solution solution;          // when status is fits
  std::int64_t refuted = -1;  // when impossible: no solution has this height or less (at least the capacity asked for)
  std::int64_t nodes = 0;     // spent
  std::int64_t visits = 0;    // of buffers, at those nodes: what they took
};

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 2;

struct Limits {
  std::int64_t nodes = kNoLimit;
  std::int64_t visits = kNoLimit;
};

// `fits` with a solution of at most `capacity` bytes, `impossible` when there is none (proven), `unknown` when it was not decided
// within the limits.
SearchResult search(const Problem& problem, std::int64_t capacity, const Limits& limits = {});

}  // namespace plimsoll::layout
