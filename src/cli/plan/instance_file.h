// Problems of recomputation from files: the graph of an instance in the format of `plan --export-instance`
// (instances/README.md), by this program or any other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/replays/problem.h"

namespace plimsoll::replays {

inline constexpr std::int64_t kMostInstanceBytes = 512 << 20;

struct Instance {
  Problem problem;
  std::vector<int> nodes;        // node of each op, as position in the file
  std::int64_t always = 0;       // bytes of the values that last through a window or a run
  std::int64_t micro_steps = 1;  // micro-steps of an update; the ops are those of one micro-step and of the update
  double rest_seconds = 0;       // seconds of the update after several micro-steps; its ops count 0 s

  // The seconds of an update whose micro-steps take `micro_step` seconds.
  double update_seconds(double micro_step) const { return static_cast<double>(micro_steps) * micro_step + rest_seconds; }
};

// `where` names the text in errors. Throws data_error E-INSTANCE for text that is no JSON, another schema, an unknown id and
// a negative or too large size. The same for a value that is made twice, or read before it is made.
Instance read_instance(std::string_view text, const std::string& where);

}  // namespace plimsoll::replays
