// Problems of recomputation from files: the graph of an instance as `plan --export-instance` writes it (instances/README.md),
// ours or anybody's.
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
  std::vector<int> nodes;   // of each op, as positions in the file
  std::int64_t always = 0;  // bytes of what lasts through a window or a run
  std::int64_t micro_steps =
      1;  // of an update; the ops are those of one micro-step where there are several, with the update where not
  double rest_seconds = 0;  // of the nodes that are no ops here: those of the update after several micro-steps

  // Of an update in which one micro-step takes so long.
  double update_seconds(double micro_step) const { return static_cast<double>(micro_steps) * micro_step + rest_seconds; }
};

// `where` names the text in errors. Throws data_error E-INSTANCE with what is wrong: no JSON, another schema, an id that is none,
// sizes that are negative or too large, a value that is read before it is made or made twice.
Instance read_instance(std::string_view text, const std::string& where);

}  // namespace plimsoll::replays
