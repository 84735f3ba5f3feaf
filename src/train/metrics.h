// What a training measures of itself: an update, an evaluation, a window that overflowed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "data/order.h"

namespace plimsoll {

struct Metrics {
  std::int64_t update = 0;
  std::int64_t samples = 0;    // cumulative
  std::int64_t units = 0;      // trained on, of this update, as the next three
  std::int64_t positions = 0;  // tokens of its samples
  std::int64_t micro_steps = 0;
  std::int64_t padding = 0;  // positions of its rows that no sample takes
  double loss = 0, grad_norm = 0, learning_rate = 0, seconds = 0;
  std::optional<double> momentum;    // of a schedule that moves it
  std::optional<double> loss_scale;  // of fp16
  double update_ratio = 0;           // root mean squares: of all that was added to parameters, by that of the parameters
  std::optional<double> underflow;   // of fp16: the largest share of a gradient, zeros apart, that lost digits
  bool spike = false;                // see DivergenceWatch
  Bytes vm_hwm;
};

struct EvaluationResult {
  std::int64_t units = 0;
  double loss = 0;  // mean over units
};

struct Evaluation {
  std::int64_t update = 0;
  std::int64_t samples = 0;  // trained on so far
  double loss = 0;           // mean over units
  std::int64_t units = 0;    // evaluated
  double seconds = 0;        // that it took
};

// A window that changed nothing, since its gradient was no number.
struct Overflow {
  std::int64_t update = 0;         // that was to be made
  double scale = 0;                // with which the window was computed
  std::int64_t micro = 0;          // micro-steps after which it was left
  bool skipped = false;            // its samples are left out; else it is computed again
  std::vector<SampleRef> samples;  // of a skipped one
};

}  // namespace plimsoll
