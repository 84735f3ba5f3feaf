// Measurements of a training: updates, evaluations, windows that overflowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "data/order.h"

namespace plimsoll {

// Squared norms of two mean gradients of a window, without loss scale and clip: of its first round and of all of it. The numbers
// of samples are Kish's effective ones, (sum of n)^2 / sum of n^2 over the units n of the samples.
struct NoiseSums {
  double first = 0, window = 0;
  double samples_first = 0, samples_window = 0;
};

struct Metrics {
  std::int64_t update = 0;
  std::int64_t samples = 0;    // cumulative
  std::int64_t units = 0;      // trained on in this update
  std::int64_t positions = 0;  // tokens of the update's samples
  std::int64_t micro_steps = 0;
  std::int64_t padding = 0;  // positions of the update's rows without a sample
  double loss = 0, grad_norm = 0, learning_rate = 0, seconds = 0;
  std::optional<double> momentum;      // of schedules that change it
  std::optional<double> loss_scale;    // of fp16
  double update_ratio = 0;             // root mean square of all changes of parameters over that of the parameters
  std::optional<double> underflow;     // of fp16: largest share of a gradient's nonzero numbers that lost digits
  bool spike = false;                  // see DivergenceWatch
  std::optional<NoiseSums> noise;      // of windows in which it is measured
  std::optional<double> wait_seconds;  // for data; absent in records of earlier versions
  double time = 0;                     // UTC seconds at its end; 0 in records of earlier versions
  Bytes vm_hwm;
};

// The share of samples whose class has the largest logit, and one of the five largest.
struct Accuracy {
  double top1 = 0, top5 = 0;
};
// ", accuracy 91.25 % (top 5 99.60 %)"; empty if there is none.
std::string accuracy_text(const std::optional<Accuracy>& accuracy);

struct EvaluationResult {
  std::int64_t units = 0;
  double loss = 0;                   // mean over units
  std::optional<Accuracy> accuracy;  // of models of classes
};

struct Evaluation {
  std::int64_t update = 0;
  std::int64_t samples = 0;  // trained on so far
  double loss = 0;           // mean over units
  std::int64_t units = 0;    // evaluated
  double seconds = 0;        // duration
  std::optional<Accuracy> accuracy;
  double time = 0;  // UTC seconds at its end; 0 in records of earlier versions
};

// The answer to a held-out prompt at an evaluation. Texts are UTF-8.
struct Answer {
  std::int64_t update = 0;
  std::string prompt, answer, expected;
};

// A window that changed nothing because its gradient was not finite.
struct Overflow {
  std::int64_t update = 0;         // the update in progress
  double scale = 0;                // the loss scale of the window
  std::int64_t micro = 0;          // micro-steps before the window ended
  bool skipped = false;            // the samples are left out; else the window is computed again
  std::vector<SampleRef> samples;  // samples of a skipped window
};

}  // namespace plimsoll
