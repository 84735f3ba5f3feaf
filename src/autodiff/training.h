// Turns a forward graph into a training graph: backward nodes in the section `micro`, accumulators and optimizer state as
// persistent values, and the section `update` (norm, clip, optimizer). There may be several losses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// Behind the name of a parameter and a dot.
inline constexpr const char* kAverageName = "ema";

struct OptimizerSettings {
  enum class Kind { adamw, sgd, lion, adafactor } kind = Kind::adamw;
  double beta2 = 0.95, epsilon = 1e-8;  // beta2: of lion too
  bool momentum = false;                // of sgd; how much is fed, as AdamW's first beta is
  bool nesterov = false;
  double weight_decay = 0;
  // Tensors of two or more axes; or all; or those of two or more axes that are not embeddings.
  enum class Decay { matrices, all, no_embeddings } decay = Decay::matrices;
  double clip = 1.0;         // of the global norm; 0: none
  bool scaled = false;       // the loss is multiplied by a scale, which its gradients are divided by
  double clip_value = 0;     // of each element; 0: none
  double average_blend = 0;  // of the parameters, into averages of them; 0: none
  // Of matrices and tables: fp32, or bf16 (which apply_precision makes of them).
  DType parameters = DType::f32;
  // Of the sums of the gradients of matrices that products read: fp32, or bf16.
  DType gradients = DType::f32;
  // Of the optimizer: fp32; or bf16, or u8 (blocks of numbers of 8 bits, with a scale each).
  DType state = DType::f32;
  // What is narrower than fp32 is rounded at random under this seed, or to the nearest.
  std::uint64_t seed = 0;
  bool nearest = false;
};

// Whether there is state with an element for each parameter, an average of them excepted.
constexpr bool has_state(OptimizerSettings::Kind kind, bool momentum) {
  switch (kind) {
    case OptimizerSettings::Kind::adamw:
    case OptimizerSettings::Kind::lion: return true;
    case OptimizerSettings::Kind::sgd: return momentum;
    case OptimizerSettings::Kind::adafactor: return false;
  }
  return false;
}

// Sums of squares: of the gradient, times the loss's scale, of the parameter before the update, and of what is added to it
// before that is rounded.
enum Reported : std::size_t { kGradientSquares, kParameterSquares, kStepSquares, kReported };

// The output of a loss op in the section `micro`. A window's sum of it is the persistent value of that name.
struct LossRoot {
  ValueId losses;
  std::string total = "loss.total";
};

// What the trainer feeds and fetches, by value.
struct TrainingValues {
  std::vector<ValueId> loss_totals;  // f64[1] each, persistent: the sum of the window's losses, by root
  ValueId update_scalars;            // f64[kUpdateScalars], fed before each update
  ValueId gradient_norm;             // f64[1], fetched after each update
  ValueId report;                    // f64[kReported n], fetched after each update: of each of the n that are `reported`
  ValueId step;  // u32[2], fed before each micro-step: the update and the micro-step; invalid where no noise needs it
  std::vector<ValueId> reported;  // parameters
};

// The gradient is that of the sum of all roots, each scaled by its loss op. Appends sections in place. Nodes that the graph has
// in its update already run behind the optimizer, on what that has changed. `accumulation`: micro-steps of a window; 0 where it
// is not known.
TrainingValues add_training(Graph& graph, std::vector<LossRoot> losses, const OptimizerSettings& optimizer,
                            std::int64_t accumulation);
inline TrainingValues add_training(Graph& graph, ValueId losses, const OptimizerSettings& optimizer, std::int64_t accumulation) {
  return add_training(graph, {LossRoot{losses}}, optimizer, accumulation);
}

}  // namespace plimsoll
