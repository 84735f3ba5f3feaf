// Turns a forward graph into a training graph: backward nodes in the section `micro`, accumulators and optimizer state as
// persistent values, and the section `update` (norm, clip, optimizer). Reads the losses value; returns nothing, rewrites the
// graph.
#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace plimsoll {

struct OptimizerSettings {
  enum class Kind { adamw, sgd } kind = Kind::adamw;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  bool decay_all = false;  // false: tensors of two or more axes only
  double clip = 1.0;       // of the global norm; 0: none
};

// What the trainer feeds and fetches, by value.
struct TrainingValues {
  ValueId loss_total;      // f64[1], persistent: the sum of the window's losses
  ValueId update_scalars;  // f64[kUpdateScalars], fed before each update
  ValueId gradient_norm;   // f64[1], fetched after each update
};

// `losses` is the output of a loss op in the section `micro`; its gradient rule is the root. Appends sections in place.
// `accumulation`: micro-steps of a window; 0 where it is not known.
TrainingValues add_training(Graph& graph, ValueId losses, const OptimizerSettings& optimizer, std::int64_t accumulation);

}  // namespace plimsoll
