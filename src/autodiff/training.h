// Turns a forward graph into a training graph: backward nodes in the section `micro`, accumulators and optimizer state as
// persistent values, and the section `update` (norm, clip, optimizer). There may be several losses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

// Suffix of a parameter's name, after a dot.
inline constexpr const char* kAverageName = "ema";

struct OptimizerSettings {
  enum class Kind { adamw, sgd, lion, adafactor } kind = Kind::adamw;
  double beta2 = 0.95, epsilon = 1e-8;  // beta2: also of lion
  bool momentum = false;                // of sgd; the factor is fed, like AdamW's first beta
  bool nesterov = false;
  double weight_decay = 0;
  // matrices: two or more axes; no_embeddings: matrices without embeddings.
  enum class Decay { matrices, all, no_embeddings } decay = Decay::matrices;
  double clip = 1.0;         // limit of the global norm; 0: none
  bool scaled = false;       // the loss has a scale, by which gradients are divided
  double clip_value = 0;     // limit of each element; 0: none
  double average_blend = 0;  // rate of the parameters' averages; 0: no averages
  // Type of matrices and tables: fp32, or bf16 (applied by apply_precision).
  DType parameters = DType::f32;
  // Type of gradient sums of matrices that products read: fp32 or bf16.
  DType gradients = DType::f32;
  // Type of the optimizer's state: fp32, bf16, or u8 (blocks of 8-bit numbers with a scale each).
  DType state = DType::f32;
  // Narrower types than fp32 are rounded at random with this seed, or to the nearest.
  std::uint64_t seed = 0;
  bool nearest = false;
};

// True if the optimizer has state for each element of a parameter, apart from averages.
constexpr bool has_state(OptimizerSettings::Kind kind, bool momentum) {
  switch (kind) {
    case OptimizerSettings::Kind::adamw:
    case OptimizerSettings::Kind::lion: return true;
    case OptimizerSettings::Kind::sgd: return momentum;
    case OptimizerSettings::Kind::adafactor: return false;
  }
  return false;
}

// Sums of squares: of the gradient (times the loss scale), of the parameter before the update, and of its change before rounding.
enum Reported : std::size_t { kGradientSquares, kParameterSquares, kStepSquares, kReported };

// The output of a loss op in the section `micro`; `total` names the persistent value of its sum over a window.
struct LossRoot {
  ValueId losses;
  std::string total = "loss.total";
};

// Values that the trainer feeds and fetches.
struct TrainingValues {
  std::vector<ValueId> loss_totals;  // f64[1] each, persistent: by root, the sum of the window's losses
  ValueId update_scalars;            // f64[kUpdateScalars], fed before each update
  ValueId gradient_norm;             // f64[1], fetched after each update
  ValueId report;                    // f64[kReported n], fetched after each update: the sums of squares of the n `reported`
  ValueId step;                   // u32[2], fed before each micro-step: numbers of update and micro-step; invalid without noise
  std::vector<ValueId> reported;  // parameters
};

// Adds the backward pass, accumulators and the update to the graph. The loss is the sum of all roots, each scaled by its loss op.
// Existing update nodes run after the optimizer, on its results. `accumulation`: micro-steps of a window; 0: unknown.
TrainingValues add_training(Graph& graph, std::vector<LossRoot> losses, const OptimizerSettings& optimizer,
                            std::int64_t accumulation);
inline TrainingValues add_training(Graph& graph, ValueId losses, const OptimizerSettings& optimizer, std::int64_t accumulation) {
  return add_training(graph, {LossRoot{losses}}, optimizer, accumulation);
}

}  // namespace plimsoll
