// A pass that measures the gradient noise of a window: after the first round it takes the norm of the accumulators by the nodes
// that the update has for its norm. It changes no value of the training.
#pragma once

#include "graph/graph.h"

namespace plimsoll {

struct NoisePass {
  Section section = Section::forward;
  ValueId norm;  // f64[1], fetched after each run: of the accumulators as they are, with the loss scale
};

// The graph has its update, and no shards.
NoisePass add_noise_pass(Graph& graph);

}  // namespace plimsoll
