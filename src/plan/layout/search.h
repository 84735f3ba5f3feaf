// Exact search for a layout within a given capacity: depth-first over canonical (bottom-up) placements on the skyline of placed
// buffers. Work is counted, never timed, so that the answer is a pure function of its arguments. The ideas are those of
// MiniMalloc (Moffitt, ASPLOS 2023) with one-machine bounds per moment and a table of refuted states added.
#pragma once

#include <cstdint>
#include <limits>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

enum class Status { fits, impossible, unknown };

const char* status_name(Status status);

// Placements tried (nodes) and buffers examined for them (visits): the cost of a node differs by a factor of a thousand between
// problems.
struct Work {
  std::int64_t nodes = 0, visits = 0;
};

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max() / 2;
struct Limits {
  std::int64_t nodes = kNoLimit, visits = kNoLimit;

  bool reached(const Work& work) const { return work.nodes >= nodes || work.visits >= visits; }
  Limits after(const Work& work) const { return {nodes - work.nodes, visits - work.visits}; }
};

struct SearchResult {
  Status status = Status::unknown;
  Solution solution;          // when status is fits
  std::int64_t refuted = -1;  // when impossible: no solution has this height or less (at least the capacity asked for)
  Work work;                  // spent
};

// `fits` with a solution of at most `capacity` bytes, `impossible` when there is none (proven), `unknown` when it was not decided
// within the limits.
SearchResult search(const Problem& problem, std::int64_t capacity, const Limits& limits = {});

}  // namespace plimsoll::layout
