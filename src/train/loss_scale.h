// The factor on the loss that keeps gradients of fp16 above what it cannot hold, and below what overflows (Micikevicius et al.,
// 2018). It is constant within a window; a window that overflowed changed nothing and is computed again with half of it.
#pragma once

#include <cstdint>

#include "weights/progress.h"

namespace plimsoll {

struct LossScaleSettings {
  double growth_samples = 0;  // without an overflow, after which it doubles
};

// - A window that overflows is tried again with half the scale, three times; then it is skipped.
// - One window that needed less does not lower the scale for those behind it; a second one before the scale has grown does, and
//   so does a skip.
// - After growth_samples without an overflow it doubles, up to 2^24.
// - There is no use in going on where three windows in a row overflowed and ended with a scale below 1, or more than a tenth of
// the last 200
//   windows were skipped.
class LossScale {
 public:
  enum class Next : std::uint8_t { update, replay, skip };
  static constexpr double kMost = 0x1p24;

  LossScale(const LossScaleSettings& settings, const LossScaleState& state)
      : settings_(settings), state_(state), scale_(state.scale) {}

  // Of the window that is computed now.
  double scale() const { return scale_; }
  // After each try of a window of so many samples: what comes next. `finite`: whether its gradient was.
  Next tried(bool finite, std::int64_t samples);
  bool hopeless() const;
  const LossScaleState& state() const { return state_; }

 private:
  void close(bool skipped);

  LossScaleSettings settings_;
  LossScaleState state_;
  double scale_;
  int retries_ = 0;
};

}  // namespace plimsoll
