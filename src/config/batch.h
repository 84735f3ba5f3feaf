// effective_batch = micro_batch x accumulation. Any of the three may be absent; the answer is unique.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll {

struct BatchSplit {
  std::int64_t effective = 1;
  std::optional<std::int64_t> micro, accumulation;  // both, or none: left to the planner

  friend bool operator==(const BatchSplit&, const BatchSplit&) = default;
};

// Absent means "auto". micro x accumulation alone define the effective batch; micro alone is a window of one micro-batch. Throws
// config_error E-BATCH-3 with the nearest values that work, and E-CONFIG-MISSING if nothing gives the size of a window.
BatchSplit resolve_batch(std::optional<std::int64_t> effective, std::optional<std::int64_t> micro,
                         std::optional<std::int64_t> accumulation, const std::string& where);

}  // namespace plimsoll
