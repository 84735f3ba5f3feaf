// A plan's replays summarised by the units of the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "plan/passes/replay.h"
#include "plan/units.h"

namespace plimsoll {

enum class UnitMode : std::uint8_t {
  keep,       // no node runs again
  cheap,      // some of its nodes run again
  recompute,  // all that its backward pass needs, except the values at its cuts
};
std::string_view name(UnitMode mode);

struct UnitDecision {
  std::string unit;  // its name: "h.3"
  UnitMode mode = UnitMode::keep;
  bool pieces = false;              // some of its nodes run again more than once
  bool joined = false;              // its input is made again with the unit before it
  std::vector<std::string> values;  // the values made again, if not all are; without the name of the unit
};

// The blocks in the order of the model. Replays outside the blocks come after them, by their lines.
std::vector<UnitDecision> describe_units(const Graph& graph, const std::vector<Unit>& units,
                                         const std::vector<NodeReplay>& replays);

}  // namespace plimsoll
